"""The rows of a sheet that match an expression.

A missing value matches only `is missing`. Any other condition on it is neither true nor false, and
neither is its negation (as with NULL in SQL): `not (val_accuracy > 0.9)` matches no trial without
an accuracy.
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import operator
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeAlias

from orchestrator.core.trial_columns import Kind
from orchestrator.report.query.expression import (
    Both,
    ColumnName,
    ColumnTest,
    Either,
    Expression,
    Literally,
    Missing,
    Not,
    OneOf,
    QueryError,
    parse,
)
from orchestrator.report.query.table import Cell, Sheet, SheetColumn

_Row: TypeAlias = Sequence[Cell]
_Test: TypeAlias = Callable[[_Row], bool | None]

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXPECTED: dict[Kind, str] = {
    "whole": "a number",
    "number": "a number",
    "text": "a text in quotes",
    "truth": "true or false",
    "time": "a date or time in quotes, such as '2026-11-21' or '2026-11-21 18:30' (UTC)",
}
_WRITTEN: dict[Kind, type | tuple[type, ...]] = {
    "whole": (int, float),
    "number": (int, float),
    "text": str,
    "truth": bool,
}


def matching(sheet: Sheet, where: str) -> tuple[tuple[Cell, ...], ...]:
    """Return the rows for which `where` is true, in their order; all of them if it is empty.

    Raises:
        QueryError: `where` is no expression, or does not fit this sheet.
    """
    if not where.strip():
        return sheet.rows
    test = _Tests(sheet, where).of(parse(where))
    return tuple(row for row in sheet.rows if test(row))


def unknown_column(name: str, columns: Sequence[str]) -> str:
    """Write the error for an unknown column, with similar names."""
    lower = {column.lower(): column for column in columns}
    near = [lower[column] for column in difflib.get_close_matches(name.lower(), lower, n=3)]
    if not near:
        return f"no column {name!r}; `rnnsweep query SWEEP --list` lists the {len(columns)} columns"
    return f"no column {name!r}; did you mean {' or '.join(map(repr, near))}?"


class _Tests:
    """Expressions as tests of a row: True, False, or None where a value is missing."""

    def __init__(self, sheet: Sheet, text: str) -> None:
        self._sheet = sheet
        self._text = text
        self._index = {name: index for index, name in enumerate(sheet.names)}

    def of(self, expression: Expression) -> _Test:
        match expression:
            case Both(of=parts):
                return _all([self.of(part) for part in parts])
            case Either(of=parts):
                none_of = _all([_negation(self.of(part)) for part in parts])  # De Morgan's law
                return _negation(none_of)
            case Not(of=part):
                return _negation(self.of(part))
            case Missing(column=column):
                index, _ = self._find(column)
                return lambda row: row[index] is None
            case OneOf(column=column, values=values):
                index, sheet_column = self._find(column)
                wanted = {self._value(sheet_column, value, "=") for value in values}
                return _unless_missing(index, lambda cell: cell in wanted)
            case ColumnTest(column=column, operator=("~" | "!~") as mark, value=value):
                index, sheet_column = self._find(column)
                return _unless_missing(index, self._likeness(sheet_column, value, mark))
            case ColumnTest(column=column, operator=mark, value=value):
                index, sheet_column = self._find(column)
                holds, other = _HOLDS[mark], self._value(sheet_column, value, mark)
                return _unless_missing(index, lambda cell: holds(cell, other))

    def _find(self, column: ColumnName) -> tuple[int, SheetColumn]:
        index = self._index.get(column.name)
        if index is None:
            problem = unknown_column(column.name, self._sheet.names)
            raise QueryError(problem, self._text, column.place)
        return index, self._sheet.columns[index]

    def _value(self, column: SheetColumn, written: Literally, mark: str) -> Cell:
        """Return the value to compare the cells of a column with."""
        value, kind = written.value, column.kind
        if kind == "truth" and mark not in ("=", "!="):
            self._refuse(f"{column.name} is true or false: expected = or !=", written)
        if kind == "time" and isinstance(value, str):
            with contextlib.suppress(ValueError):
                time = datetime.fromisoformat(value)
                return time.replace(tzinfo=time.tzinfo or UTC)
        fits = kind != "time" and isinstance(value, _WRITTEN[kind])
        if not fits or isinstance(value, bool) is not (kind == "truth"):
            self._refuse(f"{column.name} is compared with {_EXPECTED[kind]}", written)
        return value

    def _likeness(self, column: SheetColumn, written: Literally, mark: str) -> Callable[..., bool]:
        if column.kind != "text":
            self._refuse(f"{mark} needs a text column, and {column.name} is none", written)
        if not isinstance(written.value, str):
            self._refuse(f"{mark} expects a text in quotes", written)
        like = likeness(str(written.value))
        return like if mark == "~" else lambda cell: not like(cell)

    def _refuse(self, problem: str, written: Literally) -> NoReturn:
        raise QueryError(f"{problem}; received {written.value!r}", self._text, written.place)


def likeness(pattern: str) -> Callable[[str], bool]:
    """Return a test of a text against a pattern, ignoring case.

    A pattern with `*` (anything) or `?` (one character) must match the whole text, as a selector in
    a spec. Any other pattern is searched for in the text. Brackets are ordinary characters.
    """
    wanted = pattern.casefold()
    if not set(wanted) & set("*?"):
        return lambda cell: wanted in cell.casefold()
    fits = re.compile(fnmatch.translate(wanted.replace("[", "[[]"))).match
    return lambda cell: fits(cell.casefold()) is not None


def _unless_missing(index: int, holds: Callable[[Any], bool]) -> _Test:
    return lambda row: None if row[index] is None else holds(row[index])


def _negation(test: _Test) -> _Test:
    def negated(row: _Row) -> bool | None:
        result = test(row)
        return None if result is None else not result

    return negated


def _all(tests: Sequence[_Test]) -> _Test:
    def holds(row: _Row) -> bool | None:
        results = [test(row) for test in tests]
        return False if False in results else None if None in results else True

    return holds
