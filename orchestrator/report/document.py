"""The content of a report before it takes a format: sections, tables, paragraphs of raw text."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `numeric` columns are aligned right; the first column names the row.

    A table that is wider than the page folds its cells. If it is `divisible`, it is printed in
    parts instead, which repeat the first column.
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
    if unicodedata.category(char) not in ("Cc", "Cf", "Cs"):
        return char
    return (
        char.encode("ascii", "backslashreplace").decode()
        if char > "\x7f"
        else f"\\x{ord(char):02x}"
    )
