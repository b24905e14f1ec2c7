"""A summary's trials as tidy CSV: one row a trial, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Sequence
from io import StringIO

from orchestrator.core.names import mathematics_of
from orchestrator.core.outcome_text import disturbance_text
from orchestrator.core.trial import FinishedTrial

COLUMNS = (
    "run_id",
    "trial_key",
    "block",
    "repeat",
    "arm",
    "implementation",
    "hardware",
    "status",
    "node",
    "trainer_trials",
    "kernel_asked",
    "kernel_ran",
    "kernel_evidence",
    "failure",
    "mathematics",
    "energy_scope",
    "cost_basis",
    "measure",
    "attempt",
    "seed",
    "started_s",
    "ended_s",
    "disturbed",
    "matched",
)
"""What every row has: which run it is, of which arm and block, how it ended, on which node and in
how much used a trainer (`trainer_trials` before it), which kernel was asked for and ran, why it
failed, what its energy and cost are that of, whether it is a whole training or was timed in slices
(`full`, `timing`), by which attempt, from which seed, when (seconds since the epoch, UTC; empty
where unknown), by what it was disturbed, and whether it stands in a complete round, and so is
compared (`true`, `false`)."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")

Cell = str | int | float | None


def to_csv(trials: Sequence[FinishedTrial], matched: Collection[str]) -> str:
    """One header and one row a trial: the fixed columns, config sorted, metrics sorted.

    A param or metric whose name is taken stands as `config.NAME` or `metric.NAME`. What is absent
    or not finite is empty. Text that a spreadsheet would take for a formula begins with `'`; its
    line breaks are `\\n`. `matched` are the ids of the runs that stand in a complete round.
    """
    params = sorted({name for trial in trials for name in trial.config})
    metrics = sorted({name for trial in trials for name in trial.metrics})
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = list(COLUMNS)
    for name, kind in [(p, "config") for p in params] + [(m, "metric") for m in metrics]:
        header.append(_free(name, kind, header))
    writer.writerow(map(safe, header))
    for trial in trials:
        values = [
            *_fixed(trial),
            "true" if trial.run_id in matched else "false",
            *(trial.config.get(name) for name in params),
            *(trial.metrics.get(name) for name in metrics),
        ]
        writer.writerow([safe(value) for value in values])
    return out.getvalue()


def _fixed(trial: FinishedTrial) -> list[Cell]:
    kernel = trial.kernel
    return [
        trial.run_id,
        trial.key,
        trial.block,
        trial.repeat,
        str(trial.arm),
        trial.arm.implementation,
        str(trial.arm.hardware),
        trial.status,
        trial.node,
        trial.trainer_trials,
        *((kernel.asked, kernel.ran, kernel.evidence) if kernel else (None, None, None)),
        trial.failure_text,
        mathematics_of(trial.arm),
        trial.telemetry.energy_scope,
        trial.cost_basis,
        trial.arm.measure,
        trial.attempt,
        trial.seed,
        trial.started_s or None,
        trial.ended_s or None,
        disturbance_text(trial.disturbance),
    ]


def _free(name: str, kind: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"{kind}.{name}"
    return name


def safe(cell: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula; none where a number is not finite."""
    if isinstance(cell, str):
        text = "\n".join(re.split("\r\n?", cell))  # the csv module leaves a lone \r unquoted
        return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell
