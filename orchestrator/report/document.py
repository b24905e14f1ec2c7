"""The content of a report before it takes a format: sections, tables, paragraphs of raw text.

Every printer makes a `Document`, which `to_text` and `to_markdown` in `formats` write.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any, Generic, TypeVar

from orchestrator.analysis.statistics.formatting import ABSENT, number

Row = tuple[str, ...]

PARTS = {
    "answer": "Answer",
    "comparisons": "Comparisons",
    "quality": "Quality",
    "sizes": "Sizes",
    "cost": "Cost",
    "trust": "Trust",
}
"""The parts of a report in their order, with their titles."""

_Row = TypeVar("_Row")


def cell_text(value: object) -> str:
    """Return a value as the text of a cell, numbers as `number` formats them."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return number(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Column(Generic[_Row]):
    """A column of a table: its title, and the value that each row's item has in it.

    `show` makes a text of a value that is not None. The column is aligned right if it is `numeric`:
    the default is that all its values are numbers or other data, not texts. An `optional` column
    without any value is left out. With the first column, a `key` column after it names the row.
    """

    title: str
    value: Callable[[_Row], Any]
    show: Callable[[Any], str] = cell_text
    numeric: bool | None = None
    optional: bool = False
    key: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts; make one with `make_table`. The first `keys` columns name the row.

    `numeric` columns are aligned right. A table that is wider than the page is printed in parts,
    which repeat the columns that name the row; only its first part if it `is_cut`.
    """

    headers: Row
    rows: tuple[Row, ...]
    numeric: frozenset[int] = frozenset()
    keys: int = 1
    is_cut: bool = False


def make_table(columns: Sequence[Column[_Row]], items: Iterable[_Row]) -> Table:
    """Make a table with a row for each item."""
    items = list(items)
    values = [[column.value(item) for item in items] for column in columns]
    shown = [
        (column, cells)
        for column, cells in zip(columns, values, strict=True)
        if not column.optional or any(cell is not None for cell in cells)
    ]
    texts = [
        [ABSENT if cell is None else column.show(cell) for cell in cells] for column, cells in shown
    ]
    return Table(
        tuple(column.title for column, _ in shown),
        tuple(zip(*texts, strict=True)),
        frozenset(i for i, (column, cells) in enumerate(shown) if _is_numeric(column, cells)),
        1 + len([*takewhile(lambda pair: pair[0].key, shown[1:])]),
    )


def _is_numeric(column: Column[Any], cells: Sequence[Any]) -> bool:
    if column.numeric is not None:
        return column.numeric
    values = [cell for cell in cells if cell is not None]
    return bool(values) and not any(isinstance(value, str) for value in values)


class Tone(StrEnum):
    """What a fact means to its reader, which decides its colour."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Fact:
    """A label of a word or two, and a text with numbers: `fastest`, `A: 1.5 × as fast as B`."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Section:
    """Facts, tables and notes under a title; `part` is its key of `PARTS` in a report.

    `doubts` are facts that come after the tables: what is missing or limits the verdicts.
    """

    title: str
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
    doubts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report; the first section is the most important one."""

    title: str
    sections: tuple[Section, ...]


def visible(text: str) -> str:
    """Return the text on one line, with control characters shown instead of obeyed.

    White space becomes one blank. Other control and formatting characters (terminal escapes,
    changes of writing direction, lone surrogates) become `\\x1b`, `\\u202e`.
    """
    return "".join(map(_visible, " ".join(text.split())))


def _visible(char: str) -> str:
    is_shown = unicodedata.category(char) not in ("Cc", "Cf", "Cs")
    return char if is_shown else char.encode("unicode_escape").decode()
