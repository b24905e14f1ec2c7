"""A sweep's trials as a sheet: one row a trial, columns of one kind each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from orchestrator.core.names import known_implementation, mathematics_of
from orchestrator.core.outcome_text import disturbance_text
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

Cell: TypeAlias = bool | int | float | str | datetime | None
Kind: TypeAlias = Literal["whole", "number", "text", "truth", "time"]
Part: TypeAlias = Literal["trial", "param", "metric"]


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """A column's name, what its values are, and what they say something of."""

    name: str
    kind: Kind
    part: Part


@dataclass(frozen=True, slots=True)
class Sheet:
    """Rows as wide as there are columns; None is a missing value."""

    columns: tuple[SheetColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


_Read: TypeAlias = Callable[[SweepRecord, FinishedTrial], Cell]


def _implementation_part(name: Literal["backend", "kernel"]) -> _Read:
    def read(_: SweepRecord, trial: FinishedTrial) -> Cell:
        known = known_implementation(trial.arm)
        return str(getattr(known, name)) if known else None

    return read


def _kernel(name: Literal["asked", "ran", "evidence"]) -> _Read:
    return lambda _, trial: str(getattr(trial.kernel, name)) if trial.kernel else None


_TRIAL: tuple[tuple[str, Kind, _Read], ...] = (
    ("sweep", "text", lambda sweep, _: sweep.name),
    ("generation", "whole", lambda sweep, _: sweep.generation),
    ("workload", "text", lambda sweep, _: sweep.workload),
    ("block", "whole", lambda _, trial: trial.block),
    ("repeat", "whole", lambda _, trial: trial.repeat),
    ("arm", "text", lambda _, trial: str(trial.arm)),
    ("implementation", "text", lambda _, trial: trial.arm.implementation),
    ("backend", "text", _implementation_part("backend")),
    ("kernel", "text", _implementation_part("kernel")),
    ("hardware", "text", lambda _, trial: str(trial.arm.hardware)),
    ("device", "text", lambda _, trial: trial.arm.device),
    ("node", "text", lambda _, trial: trial.node or None),
    ("measure", "text", lambda _, trial: trial.arm.measure),
    ("mathematics", "text", lambda _, trial: mathematics_of(trial.arm) or None),
    ("outcome", "text", lambda _, trial: trial.status),
    ("disturbed", "text", lambda _, trial: disturbance_text(trial.disturbance) or None),
    ("round", "text", lambda _, trial: trial.round_id),
    ("failure", "text", lambda _, trial: trial.failure_text or None),
    ("attempt", "whole", lambda _, trial: trial.attempt),
    ("trainer_trials", "whole", lambda _, trial: trial.trainer_trials),
    ("kernel_asked", "text", _kernel("asked")),
    ("kernel_ran", "text", _kernel("ran")),
    ("kernel_evidence", "text", _kernel("evidence")),
    ("energy_scope", "text", lambda _, trial: trial.telemetry.energy_scope),
    ("cost_basis", "text", lambda _, trial: trial.cost_basis),
    ("started", "time", lambda _, trial: _time(trial.started_s)),
    ("ended", "time", lambda _, trial: _time(trial.ended_s)),
    ("run_id", "text", lambda _, trial: trial.run_id),
    ("trial_key", "text", lambda _, trial: trial.key),
)


def make_sheet(sweep: SweepRecord) -> Sheet:
    """All trials of a sweep: what each is, its params (config and fixed settings), its metrics.

    A param or metric whose name is taken stands as `config.NAME` or `metric.NAME`. A param that is
    a number in one trial and a text in another is a text in all. A metric that is not a number is
    missing.
    """
    columns, values = list[SheetColumn](), list[list[Cell]]()

    def add(name: str, part: Part, cells: Sequence[Cell], kind: Kind | None = None) -> None:
        taken = {column.name for column in columns}
        while name in taken:
            name = f"{'metric' if part == 'metric' else 'config'}.{name}"
        known = kind or _kind(cells)
        columns.append(SheetColumn(name, known, part))
        values.append([_as(known, cell) for cell in cells])

    for name, kind, read in _TRIAL:
        add(name, "trial", [read(sweep, trial) for trial in sweep.trials], kind)
    settings = {name: value for name, value in sweep.settings.items() if _is_scalar(value)}
    for name in _sorted({*settings}, (trial.config for trial in sweep.trials)):
        fixed = settings.get(name)
        add(name, "param", [trial.config.get(name, fixed) for trial in sweep.trials])
    for name in _sorted(set(), (trial.metrics for trial in sweep.trials)):
        add(name, "metric", [trial.metrics.get(name) for trial in sweep.trials], "number")
    return Sheet(tuple(columns), tuple(zip(*values, strict=True)) if sweep.trials else ())


def _sorted(first: set[str], each: Iterable[Iterable[str]]) -> list[str]:
    return sorted(first.union(*each))


def _is_scalar(value: object) -> bool:
    return isinstance(value, bool | int | float | str)


def _kind(cells: Iterable[Cell]) -> Kind:
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool} and kinds:
        return "truth"
    if kinds <= {int} and kinds:
        wide = any(isinstance(cell, int) and abs(cell) >= 2**63 for cell in cells)
        return "number" if wide else "whole"
    return "number" if kinds <= {int, float} and kinds else "text"


def _as(kind: Kind, cell: Cell) -> Cell:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if kind == "number" and isinstance(cell, int):
        return float(cell)
    if kind == "text" and not isinstance(cell, str):
        return str(cell).lower() if isinstance(cell, bool) else str(cell)
    return cell


def _time(seconds: float) -> datetime | None:
    """To the millisecond; None where it is not known."""
    return datetime.fromtimestamp(round(seconds, 3), UTC) if seconds else None
