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

_NUMBERS = ("block", "repeat", "attempt")
_TEXTS = ("node", "failure")
_FIRST = ("step_ms", "train_s", "val_accuracy", "val_loss", "val_bits_per_char")


class _Texts:
    """Texts by number, as most are the same for many trials."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def number(self, raw: str) -> int:
        return self._numbers.setdefault(visible(raw), len(self._numbers))

    def numbers(self, cells: Iterable[object]) -> list[int]:
        return [self.number("" if cell is None else str(cell)) for cell in cells]

    def all(self) -> list[str]:
        return list(self._numbers)


def trial_columns(summary: ReportSummary, name: ArmNames) -> dict[str, Any]:
    """Return a list for each field with a value per trial; texts are numbers of `texts`.

    `arms` are in the order of the summary, which also decides the colours of plots.
    """
    texts = _Texts()
    trials = summary.trials
    place = {arm_summary.arm: i for i, arm_summary in enumerate(summary.arms)}
    params, metrics = config_names(trials), metric_names(trials)
    cells = {column.name: [column.get(trial) for trial in trials] for column in COLUMNS}
    shown = [m for m in (*summary.sweep.objectives, *_FIRST) if m in metrics]
    return {
        "arms": [
            {
                "name": visible(name(arm_summary.arm)),
                "implementation": visible(arm_summary.arm.implementation),
                "hardware": visible(str(arm_summary.arm.hardware)),
            }
            for arm_summary in summary.arms
        ],
        "shown": list(dict.fromkeys(shown))[:MOST_SHOWN],
        "arm": [place[trial.arm] for trial in trials],
        **{name: cells[name] for name in _NUMBERS},
        **{name: texts.numbers(cells[name]) for name in _TEXTS},
        "outcome": [texts.number(trial.status.replace("_", " ")) for trial in trials],
        "run": [visible(trial.run_id) for trial in trials],
        "kernel": [texts.number(_kernel(trial)) for trial in trials],
        "params": _columns(params, (trial.config for trial in trials)),
        "metrics": _columns(metrics, (trial.metrics for trial in trials)),
        "notes": {
            column.name: texts.numbers(cells[column.name])
            for column in QUALIFIERS
            if any(cells[column.name])
        },
        "texts": texts.all(),
    }


def _columns(
    names: Iterable[str], rows: Iterable[Mapping[str, bool | float | str]]
) -> dict[str, list[Any]]:
    every = list(rows)
    return {visible(name): [_short(row.get(name)) for row in every] for name in names}


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
