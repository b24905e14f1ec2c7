"""Queries of the trials of a sweep, with results as rows or as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from orchestrator.core.records import SweepRecord
from orchestrator.core.trial_columns import Kind
from orchestrator.report.query.expression import QueryError, columns_of, parse
from orchestrator.report.query.known_metrics import with_known
from orchestrator.report.query.matching import matching, unknown_column
from orchestrator.report.query.table import Cell, Sheet, make_sheet

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


def ask(
    record: SweepRecord,
    where: str = "",
    columns: Sequence[str] | None = None,
    *,
    sort: Sequence[str] = (),
    limit: int | None = None,
) -> Sheet:
    """Return the requested part of a sweep's sheet; see `orchestrator.api.query`.

    A possible metric that no trial has can be named: all of its values are missing. If no trial of
    the sweep has ended, only the grammar of the query is checked.

    Raises:
        QueryError: `where` is no expression, or a column does not exist.
    """
    sheet = make_sheet(record)
    if not sheet.rows:
        if where.strip():
            parse(where)
        existing = [column for column in sheet.columns if not columns or column.name in columns]
        return Sheet(tuple(existing), ())
    named = [*(columns or ()), *(key.removeprefix("-") for key in sort)]
    named += columns_of(parse(where)) if where.strip() else ()
    wide = with_known(sheet, record, named)
    kept = list(matching(wide, where))
    for key in reversed(sort):
        _sort(kept, wide, key)
    result = replace(wide, rows=tuple(kept[:limit]))
    if columns is None and wide is sheet:
        return result
    return select(result, sheet.names if columns is None else columns)


def select(sheet: Sheet, names: Sequence[str]) -> Sheet:
    """Return these columns, in this order.

    Raises:
        QueryError: A column does not exist.
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
    """Return the columns to show by default: config, outcome, objectives and main metrics."""
    tried = {name for trial in record.trials for name in trial.config}
    shown = ["block", "repeat"] if record.repeats > 1 else ["block"]
    shown += ["implementation", "hardware"]
    shown += [column.name for column in sheet.columns if column.part == "param"]
    shown = [name for name in shown if name in _ALWAYS or name in tried]
    wanted = [*shown, "outcome", *dict.fromkeys([*record.objectives, "step_ms", "val_accuracy"])]
    return [name for name in wanted if name in sheet.names]


def to_frame(sheet: Sheet) -> pd.DataFrame:
    """Return the sheet as a DataFrame with typed columns."""
    import pandas as pd  # noqa: PLC0415  (half a second)

    columns: list[tuple[Any, ...]] = list(zip(*sheet.rows, strict=True))
    values = columns or [()] * len(sheet.columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(list(cells), dtype=_DTYPES[column.kind])
            for column, cells in zip(sheet.columns, values, strict=True)
        }
    )


def _place(sheet: Sheet, name: str, text: str, place: int) -> int:
    if name not in sheet.names:
        raise QueryError(unknown_column(name, sheet.names), text, place)
    return sheet.names.index(name)


def _sort(rows: list[tuple[Cell, ...]], sheet: Sheet, key: str) -> None:
    """Sort in place, keeping the order of equals; missing values come last in both orders."""
    falls = key.startswith("-")
    index = _place(sheet, key.removeprefix("-"), key, int(falls))
    missing = [row for row in rows if row[index] is None]
    present = [row for row in rows if row[index] is not None]
    present.sort(key=lambda row: _key(row[index]), reverse=falls)
    rows[:] = [*present, *missing]


def _key(cell: Cell) -> Any:
    return cell.astimezone(UTC) if isinstance(cell, datetime) else cell
