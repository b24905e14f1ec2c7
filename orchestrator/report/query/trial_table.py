"""The trials of sweeps as one Arrow table: a row for each trial, columns of one kind each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from orchestrator.core.records import SweepRecord
from orchestrator.core.trial_columns import COLUMNS, Kind, config_names, free_name, metric_names

_TYPES: dict[Kind, Any] = {
    "whole": pa.int64(),
    "number": pa.float64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    "time": pa.timestamp("ms"),  # in UTC
}


def trial_table(records: Sequence[SweepRecord], blank: Iterable[str] = ()) -> pa.Table:
    """Return all trials of the sweeps, with their columns, params (all settings) and metrics.

    A param or metric whose name is taken becomes `config.NAME` or `metric.NAME`. A param that is a
    number in one trial and a text in another is a text in all. NaN is a missing value. `blank` are
    the names of further metrics, which no trial has.
    """
    arrays = dict[str, Any]()

    def add(name: str, cells: Sequence[Any], kind: Kind) -> None:
        values = [None if cell is None else _as(kind, cell) for cell in cells]
        arrays[name] = pa.array(values, _TYPES[kind], from_pandas=True)  # NaN becomes null

    rows = [(record, trial) for record in records for trial in record.trials]
    trials = [trial for _, trial in rows]
    add("sweep", [record.name for record, _ in rows], "text")
    add("generation", [record.generation for record, _ in rows], "whole")
    add("workload", [record.workload for record, _ in rows], "text")
    for column in COLUMNS:
        add(column.name, [column.get(trial) for trial in trials], column.kind)
    scalars = (bool, int, float, str)
    fixed = {name for r in records for name, value in r.settings.items() if type(value) in scalars}
    for name in sorted({*fixed, *config_names(trials)}):
        cells = [trial.config.get(name, record.settings.get(name)) for record, trial in rows]
        add(free_name(name, "config", arrays), cells, _kind(cells))
    for name in metric_names(trials):
        cells = [trial.metrics.get(name) for trial in trials]
        add(free_name(name, "metric", arrays), cells, "number")
    for name in blank:
        add(name, [None] * len(trials), "number")
    return pa.table(arrays)


def _kind(cells: Iterable[Any]) -> Kind:
    types = {type(cell) for cell in cells if cell is not None}
    if types == {bool}:
        return "truth"
    if types == {int} and all(cell is None or abs(cell) < 2**63 for cell in cells):
        return "whole"
    return "number" if types and types <= {int, float} else "text"


def _as(kind: Kind, cell: Any) -> Any:
    """Return the cell in a form that Arrow takes for this kind."""
    if kind == "text":
        text = str(cell).lower() if isinstance(cell, bool) else str(cell)
        return text.encode(errors="backslashreplace").decode()  # it may have a lone surrogate
    if kind == "time":
        return round(1000 * cell)
    return float(cell) if kind == "number" else cell
