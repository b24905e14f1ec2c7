"""The trials of a sweep as a sheet: one row a trial, columns of one kind each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from orchestrator.core.records import SweepRecord
from orchestrator.core.trial_columns import COLUMNS, Kind, config_names, free_name, metric_names

Cell: TypeAlias = bool | int | float | str | datetime | None
Part: TypeAlias = Literal["trial", "param", "metric"]


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """The name of a column, the kind of its values, and the part of a trial that they describe."""

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


def make_sheet(sweep: SweepRecord) -> Sheet:
    """Return all trials of a sweep, with their columns, params (all settings) and metrics.

    A param or metric whose name is taken becomes `config.NAME` or `metric.NAME`. A param that is a
    number in one trial and a text in another is a text in all. A metric that is not a number is
    missing.
    """
    columns, values = list[SheetColumn](), list[list[Cell]]()

    def add(name: str, part: Part, cells: Sequence[Cell], kind: Kind | None = None) -> None:
        taken = {column.name for column in columns}
        name = free_name(name, "metric" if part == "metric" else "config", taken)
        common = kind or _kind(cells)
        columns.append(SheetColumn(name, common, part))
        values.append([_as(common, cell) for cell in cells])

    trials = sweep.trials
    add("sweep", "trial", [sweep.name] * len(trials), "text")
    add("generation", "trial", [sweep.generation] * len(trials), "whole")
    add("workload", "trial", [sweep.workload] * len(trials), "text")
    for column in COLUMNS:
        add(column.name, "trial", [column.get(trial) for trial in trials], column.kind)
    settings = {name: value for name, value in sweep.settings.items() if _is_scalar(value)}
    for name in sorted({*settings, *config_names(trials)}):
        fixed = settings.get(name)
        add(name, "param", [trial.config.get(name, fixed) for trial in trials])
    for name in metric_names(trials):
        add(name, "metric", [trial.metrics.get(name) for trial in trials], "number")
    return Sheet(tuple(columns), tuple(zip(*values, strict=True)) if sweep.trials else ())


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
    if kind == "time" and isinstance(cell, int | float):
        return datetime.fromtimestamp(round(cell, 3), UTC)
    if kind == "number" and isinstance(cell, int):
        return float(cell)
    if kind == "text" and not isinstance(cell, str):
        return str(cell).lower() if isinstance(cell, bool) else str(cell)
    return cell
