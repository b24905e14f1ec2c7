"""A document as plain text for a terminal, by rich, and as GitHub-flavoured Markdown."""

import re
from io import StringIO
from itertools import count

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from orchestrator.report.document import Document, Section, Table, visible

MIN_WIDTH = 60
_KEY_WIDTH = 36  # a longer first column folds
_TEXT_WIDTH = 12  # the narrowest readable column of text
_GAP = 2
_PART = re.compile(r"(?:\+|\S)(?:[^\s/+]|/(?!\w{3}))*/?\s*")
"""The places to fold a header: between words, and between parts of `tensorflow/portable+xla`."""
_STYLES = {
    "faster": "bold green",
    "slower": "bold red",
    "same": "bold cyan",
    "inconclusive": "bold yellow",
    "provisional": "bold yellow",
}


def to_text(document: Document, width: int = 100, *, colour: bool = False) -> str:
    """Write the document in lines of at most `width` cells, but at least `MIN_WIDTH`.

    Longer lines are folded, never cut. Terminal codes appear only with `colour`. Markup and
    control characters in names are printed, not obeyed.
    """
    out = StringIO()
    console = Console(
        file=out,
        width=max(width, MIN_WIDTH),
        color_system="standard" if colour else None,
        force_terminal=colour,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    console.print(_text(document.title, "bold"))
    for number, section in zip(count(), document.sections, strict=False):
        console.print()
        if number:  # the first section needs no title
            console.print(_text(section.title, "bold"))
        console.print(_section(section, console.width))
    lines = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n") + "\n"


def _section(section: Section, width: int) -> Group:
    parts = [_bullets(section.bullets)] if section.bullets else []
    parts += [_table(part, width) for table in section.tables for part in _divided(table, width)]
    notes = [Padding(_text(note), (0, 0, 0, 2)) for note in section.paragraphs]
    return Group(*parts, *notes)


def _bullets(bullets: tuple[tuple[str, str], ...]) -> RichTable:
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    for kind, sentence in bullets:
        grid.add_row(_text("•", _STYLES.get(kind, "bold")), _text(sentence))
    return grid


def _divided(table: Table, width: int) -> list[Table]:
    """Divide a table into parts that fit, all with the first column; fold headers to save parts."""
    if not table.divisible:
        return [table]
    room = width - min(_width(table, 0), _KEY_WIDTH) - _GAP - 1  # as `_widths` counts
    parts: list[list[int]] = [[]]
    remaining = room
    for i in range(1, len(table.headers)):
        wide = _number_width(table, i) + _GAP
        if parts[-1] and wide > remaining:
            parts.append([])
            remaining = room
        parts[-1].append(i)
        remaining -= wide
    return [_columns(table, [0, *part]) for part in parts]


def _columns(table: Table, chosen: list[int]) -> Table:
    return Table(
        tuple(table.headers[i] for i in chosen),
        tuple(tuple(row[i] for i in chosen) for row in table.rows),
        frozenset(place for place, i in enumerate(chosen) if i in table.numeric),
    )


def _table(table: Table, width: int) -> RichTable:
    grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for i, (header, wide) in enumerate(zip(table.headers, _widths(table, width), strict=True)):
        right = i in table.numeric
        title = Text("\n".join(_folded(header, wide)), overflow="fold")
        grid.add_column(title, justify="right" if right else "left", width=wide)
    for row in table.rows:
        grid.add_row(*map(_text, row))
    return grid


def _widths(table: Table, width: int) -> list[int]:
    """Return the widths of the columns: texts fold first, then names of rows and numbers."""
    # The widths are fixed here because rich crops a table that it cannot shrink.
    columns = range(len(table.headers))
    natural = [max(_width(table, i), cell_len(visible(table.headers[i]))) for i in columns]
    room = width - _GAP * len(natural) - 1
    if sum(natural) <= room:
        return natural
    whole = {0: min(natural[0], _KEY_WIDTH)} | {i: _number_width(table, i) for i in table.numeric}
    flexible = [i for i in columns if i not in whole]
    needed = sum(min(_TEXT_WIDTH, natural[i]) for i in flexible)
    if sum(whole.values()) + needed > room:
        whole, flexible = {}, list(columns)
    shared = _share(room - sum(whole.values()), [natural[i] for i in flexible])
    return [(whole | dict(zip(flexible, shared, strict=True)))[i] for i in columns]


def _share(room: int, wanted: list[int]) -> list[int]:
    """Share the room: no column gets more than it wants, and none too little because of others."""
    given = [0] * len(wanted)
    remaining = len(wanted)
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        given[i] = max(1, min(wanted[i], room // remaining))
        room -= given[i]
        remaining -= 1
    return given


def _number_width(table: Table, column: int) -> int:
    """Return the width of a column of numbers, whose header folds between words and parts."""
    parts = (part.rstrip() for part in _PART.findall(visible(table.headers[column])))
    return max(_width(table, column), *map(cell_len, parts), 1)


def _folded(header: str, width: int) -> list[str]:
    """Fold a header into lines, with as many whole parts in a line as fit."""
    lines = [""]
    for part in _PART.findall(visible(header)):
        if lines[-1] and cell_len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def _width(table: Table, column: int) -> int:
    """Return the width of the longest cell of a column, without its header."""
    return max((cell_len(visible(row[column])) for row in table.rows), default=1)


def _text(raw: str, style: str = "") -> Text:
    return Text(visible(raw), style=style, overflow="fold")


_SPECIAL = re.compile(r"[\\`*\[\]|~$!#]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LIST_START = re.compile(r"^(\d*)([-+=.)])")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")


def to_markdown(document: Document) -> str:
    """Write the document, with tables in GitHub's syntax."""
    parts = [f"# {escape(document.title)}"]
    for number, part in enumerate(document.sections):
        parts += _markdown_parts(part) if number == 0 else [section_markdown(part)]
    return "\n\n".join(parts) + "\n"


def section_markdown(part: Section) -> str:
    """Write one section with its heading, without a line break at its end."""
    heading = [f"## {escape(part.title)}"] if part.title else []
    return "\n\n".join([*heading, *_markdown_parts(part)])


def escape(raw: str) -> str:
    """Escape a text so that Markdown shows it unchanged in a paragraph, a heading or a cell.

    The text becomes one line. Backslashes precede emphasis, code, links, images, cells, maths,
    headings and lists. HTML becomes entities. Addresses do not become links.
    """
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), visible(raw))
    text = "".join(_ENTITIES.get(char, char) for char in text)
    text = _LINK.sub(lambda m: f"{m[1] or m[3]}\\{m[2] or m[4]}", text)
    return _LIST_START.sub(r"\1\\\2", text)


def _markdown_parts(section: Section) -> list[str]:
    bullets = [f"- {escape(sentence)}" for _, sentence in section.bullets]
    return [
        *(["\n".join(bullets)] if bullets else []),
        *map(_markdown_table, section.tables),
        *map(escape, section.paragraphs),
    ]


def _markdown_table(table: Table) -> str:
    rule = ("---:" if i in table.numeric else "---" for i in range(len(table.headers)))
    lines = [map(escape, table.headers), rule, *(map(escape, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
