"""The trials of a sweep as columns, for the table on the page: texts once, numbers rounded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import FinishedTrial
from orchestrator.core.trial_columns import COLUMNS, QUALIFIERS, config_names, metric_names
from orchestrator.report.document import visible
from orchestrator.report.wording import ArmNames, kernel_text

MOST_SHOWN = 3
"""The most metrics with a column of the table; the details of a trial have all metrics."""

_FIRST = ("step_ms", "train_s", "val_accuracy", "val_loss", "val_bits_per_char")


def trial_columns(summary: ReportSummary, name: ArmNames) -> dict[str, Any]:
    """Return a list for each field with a value per trial; texts are numbers of `texts`.

    `arms` are in the order of the summary, which also decides the colours of plots.
    """
    texts = {"": 0}

    def numbered(cells: Iterable[Any]) -> list[int]:
        return [texts.setdefault(visible(cell or ""), len(texts)) for cell in cells]

    trials = summary.trials
    place = {entry.arm: i for i, entry in enumerate(summary.arms)}
    metrics = metric_names(trials)
    cells = {column.name: [column.get(trial) for trial in trials] for column in COLUMNS}
    shown = [m for m in (*summary.sweep.objectives, *_FIRST) if m in metrics]
    return {
        "arms": [
            {
                "name": visible(name(entry.arm)),
                "implementation": visible(entry.arm.implementation),
                "hardware": visible(str(entry.arm.hardware)),
            }
            for entry in summary.arms
        ],
        "shown": list(dict.fromkeys(shown))[:MOST_SHOWN],
        "arm": [place[trial.arm] for trial in trials],
        **{field: cells[field] for field in ("block", "repeat", "attempt")},
        **{field: numbered(cells[field]) for field in ("node", "failure")},
        "outcome": numbered(trial.status.replace("_", " ") for trial in trials),
        "run": [visible(trial.run_id) for trial in trials],
        "kernel": numbered(map(_kernel, trials)),
        "params": _columns(config_names(trials), [trial.config for trial in trials]),
        "metrics": _columns(metrics, [trial.metrics for trial in trials]),
        "notes": {c.name: numbered(cells[c.name]) for c in QUALIFIERS if any(cells[c.name])},
        "texts": list(texts),
    }


def _columns(
    names: Iterable[str], rows: list[Mapping[str, bool | float | str]]
) -> dict[str, list[Any]]:
    return {visible(name): [_short(row.get(name)) for row in rows] for name in names}


def _short(value: bool | float | str | None) -> bool | float | str | None:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def _kernel(trial: FinishedTrial) -> str:
    if trial.kernel is None:
        return ""
    ran = kernel_text(trial.kernel.asked, trial.kernel.ran)
    return f"{ran} ({trial.kernel.evidence or 'no evidence'})"
