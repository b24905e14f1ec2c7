"""What plots call things: metrics with their units, configs, and the parts of file names."""

from __future__ import annotations

import re
import unicodedata

from orchestrator.analysis.metrics.measures import MEASURES
from orchestrator.analysis.statistics.formatting import number
from orchestrator.core.trial import Config

_TITLES = {measure.metric: measure.title for measure in MEASURES}


def metric_title(metric: str) -> str:
    """`step (ms)` for a measure of ours, and any other metric by its name."""
    return _TITLES.get(metric, metric)


def config_text(config: Config) -> str:
    """`batch_size 32, units 96`"""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in values)


def slug(text: str) -> str:
    """The text as a part of a file's name: lower case, letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:60]
