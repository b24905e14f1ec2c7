"""A report as sections, paragraphs and tables, before it takes a format. All text is raw."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `numeric` columns are set right; the first column names the row.

    Where a table is wider than the page, one with `divisible` columns is printed in parts that
    repeat the first column; the others fold their cells.
    """

    headers: Row
    rows: tuple[Row, ...]
    numeric: frozenset[int] = frozenset()
    divisible: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part: bullets (a kind, for the colour, and a sentence), tables, paragraphs."""

    title: str
    bullets: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    paragraphs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report; the first section is what a reader should know first."""

    title: str
    sections: tuple[Section, ...]


def visible(text: str) -> str:
    """The text on one line, with control characters shown and not obeyed.

    White space becomes one blank; other control and formatting characters (terminal escapes,
    changes of writing direction, lone surrogates) become `\\x1b`, `\\u202e`.
    """
    return "".join(map(_visible, " ".join(text.split())))


def _visible(char: str) -> str:
    if unicodedata.category(char) not in ("Cc", "Cf", "Cs"):
        return char
    return (
        char.encode("ascii", "backslashreplace").decode()
        if char > "\x7f"
        else f"\\x{ord(char):02x}"
    )
