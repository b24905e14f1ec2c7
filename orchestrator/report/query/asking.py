"""Questions to a sweep's trials: as rows, and as a pandas DataFrame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from orchestrator.core.records import SweepRecord
from orchestrator.report.query.expression import QueryError, columns_of, parse
from orchestrator.report.query.known_metrics import with_known
from orchestrator.report.query.matching import matching, unknown_column
from orchestrator.report.query.table import Cell, Kind, Sheet, make_sheet
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking import tracking_uri
from orchestrator.storage.tracking.reader import read_sweep

if TYPE_CHECKING:
    import pandas as pd

_DTYPES: dict[Kind, str] = {
    "whole": "Int64",
    "number": "float64",
    "text": "string",
    "truth": "boolean",
    "time": "datetime64[ms, UTC]",
}

_ALWAYS = ("block", "repeat", "implementation", "hardware")


def query(
    sweep: str,
    where: str = "",
    columns: Sequence[str] | None = None,
    *,
    sort: Sequence[str] = (),
    limit: int | None = None,
    generation: int | None = None,
    tracking_uri: str | None = None,
) -> pd.DataFrame:
    """The trials of a sweep that `where` means, one row each, as a pandas DataFrame.

    Columns are what a trial is (`arm`, `hardware`, `outcome`, `run_id`, …), its params (the config,
    and the settings that all trials share) and its metrics; `rnnsweep query SWEEP --list` tells
    them. They are typed: `Int64`, `float64`, `string`, `boolean`, and times in UTC; what a trial
    does not have is missing.

    Args:
        sweep: a sweep's name, or its label (`quickstart#2`).
        where: which trials: comparisons (`=`, `!=`, `<`, `<=`, `>`, `>=`; `~` and `!~` for text
            that stands in it, upper and lower case being one, or a whole pattern with `*` and
            `?`; `in (…)`; `is missing`) joined by `and`, `or`, `not` and parentheses. A missing
            value matches nothing but `is missing`. All trials where it is empty.
        columns: these alone, in this order; all by default.
        sort: columns to sort by; `-step_ms` falls. What is missing comes last.
        limit: so many rows at most.
        generation: an earlier start with `--fresh`, counted from 1; the latest by default.
        tracking_uri: the MLflow store; by default MLFLOW_TRACKING_URI, else that of
            RNNSWEEP_HOME.

    Raises:
        QueryError: a column that is not there, or a `where` that is no expression; a ValueError.
        SweepNotFound: the store has no such sweep.
        TrackingError: the store cannot be read.

    Example:
        >>> from orchestrator.report.query import query
        >>> found = query("quickstart", "backend = 'tensorflow' and val_accuracy > 0.5",
        ...               ["implementation", "units", "step_ms"], sort=["step_ms"], limit=2)
        >>> list(found.columns)
        ['implementation', 'units', 'step_ms']
        >>> bool(found["step_ms"].is_monotonic_increasing)
        True
    """
    record = read_sweep(tracking_uri or _usual_store(), sweep, generation)
    return to_frame(ask(record, where, columns, sort=sort, limit=limit))


def ask(
    record: SweepRecord,
    where: str = "",
    columns: Sequence[str] | None = None,
    *,
    sort: Sequence[str] = (),
    limit: int | None = None,
) -> Sheet:
    """The part of a sweep's sheet that is asked for; see `query`.

    A metric that no trial has is a column where it is named, of which every value is missing. Of a
    sweep none of whose trials has ended nothing but the question's grammar is checked.

    Raises:
        QueryError: `where` is no expression, or a column is not there.
    """
    sheet = make_sheet(record)
    if not sheet.rows:
        if where.strip():
            parse(where)
        known = [column for column in sheet.columns if not columns or column.name in columns]
        return Sheet(tuple(known), ())
    named = [*(columns or ()), *(each.removeprefix("-") for each in sort)]
    named += columns_of(parse(where)) if where.strip() else ()
    wide = with_known(sheet, record, named)
    kept = list(matching(wide, where))
    for each in reversed(sort):
        _sort(kept, wide, each)
    found = replace(wide, rows=tuple(kept[:limit]))
    if columns is None and wide is sheet:
        return found
    return select(found, sheet.names if columns is None else columns)


def select(sheet: Sheet, names: Sequence[str]) -> Sheet:
    """These columns, in this order.

    Raises:
        QueryError: one is not there.
    """
    text, chosen = ",".join(names), list[int]()
    for position, name in enumerate(names):
        start = len(",".join(names[:position])) + bool(position)
        chosen.append(_place(sheet, name, text, start))
    return Sheet(
        tuple(sheet.columns[index] for index in chosen),
        tuple(tuple(row[index] for index in chosen) for row in sheet.rows),
    )


def usual_columns(record: SweepRecord, sheet: Sheet) -> list[str]:
    """What a person wants to see first: what was tried, how it ended, and what it was tried for."""
    tried = {name for trial in record.trials for name in trial.config}
    shown = ["block", "repeat"] if record.repeats > 1 else ["block"]
    shown += ["implementation", "hardware"]
    shown += [column.name for column in sheet.columns if column.part == "param"]
    shown = [name for name in shown if name in _ALWAYS or name in tried]
    wanted = [*shown, "outcome", *dict.fromkeys([*record.objectives, "step_ms", "val_accuracy"])]
    return [name for name in wanted if name in sheet.names]


def to_frame(sheet: Sheet) -> pd.DataFrame:
    """The sheet as a DataFrame with typed columns."""
    import pandas as pd  # noqa: PLC0415  (half a second)

    columns: list[tuple[Any, ...]] = list(zip(*sheet.rows, strict=True))
    values = columns or [()] * len(sheet.columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(list(cells), dtype=_DTYPES[column.kind])
            for column, cells in zip(sheet.columns, values, strict=True)
        }
    )


def _usual_store() -> str:
    return tracking_uri(sweep_home(), os.environ)


def _place(sheet: Sheet, name: str, text: str, place: int) -> int:
    if name not in sheet.names:
        raise QueryError(unknown_column(name, sheet.names), text, place)
    return sheet.names.index(name)


def _sort(rows: list[tuple[Cell, ...]], sheet: Sheet, asked: str) -> None:
    """Sort in place, keeping the order of equals; what is missing comes last either way."""
    falls = asked.startswith("-")
    index = _place(sheet, asked.removeprefix("-"), asked, int(falls))
    missing = [row for row in rows if row[index] is None]
    known = [row for row in rows if row[index] is not None]
    known.sort(key=lambda row: _key(row[index]), reverse=falls)
    rows[:] = [*known, *missing]


def _key(cell: Cell) -> Any:
    return cell.astimezone(UTC) if isinstance(cell, datetime) else cell
