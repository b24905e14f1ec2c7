"""The names that plots use: metrics with their units, configs, and parts of file names."""

from __future__ import annotations

import re
import unicodedata

from orchestrator.analysis.measures import MEASURES
from orchestrator.analysis.statistics.formatting import number
from orchestrator.core.trial import Config

_TITLES = {measure.metric: measure.title for measure in MEASURES}


def metric_title(metric: str) -> str:
    """Return `step (ms)` for a measure of reports, and the name of any other metric."""
    return _TITLES.get(metric, metric)


def config_text(config: Config) -> str:
    """Write a config: `batch_size 32, units 96`."""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in values)


def slug(text: str) -> str:
    """Return the text as part of a file name: lower case, letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60]
