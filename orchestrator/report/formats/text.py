"""A document as plain text for a terminal, by rich, and as GitHub-flavoured Markdown."""

import re
from collections.abc import Iterable, Mapping
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from orchestrator.report.document import Document, Fact, Section, Table, Tone, visible

MIN_WIDTH = 60
_KEY_WIDTH = 36  # a longer first column folds
_HEAD_WIDTH = 18  # a shorter head never folds
_TEXT_WIDTH = 12  # nor does a shorter text
_GAP = 2
_PART = re.compile(r"(?:\+|\S)(?:[^\s/+]|/(?!\w{3}))*/?\s*")
"""Where to fold a header: between words, and between parts of `tensorflow/portable+xla`."""
_STYLES: Mapping[Tone, str] = {
    Tone.GOOD: "bold green",
    Tone.BAD: "bold red",
    Tone.DOUBT: "bold yellow",
}
"""The colours of facts in a terminal."""


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
        _environ={},
    )
    console.print(_text(document.title, "bold"))
    for index, section in enumerate(document.sections):
        console.print()
        if index > 0 and section.title:  # the first one has the document's title
            console.print(_text(f"{section.title} ".ljust(console.width, "─"), "bold"))
        console.print(_section(section, console.width))
    lines = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip("\n") + "\n"


def _section(section: Section, width: int) -> Group:
    parts: list[RenderableType] = [_facts(section.facts)] if section.facts else []
    for table in section.tables:
        parts += [_table(divided, width) for divided in _divided(table, width)]
    parts += [_facts(section.doubts)] if section.doubts else []
    return Group(*parts, *(Padding(_text(note), (0, 0, 0, 1)) for note in section.notes))


def _facts(facts: Iterable[Fact]) -> Padding:
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in facts:
        grid.add_row(_text(fact.label, _STYLES.get(fact.tone, "bold")), _text(fact.text))
    return Padding(grid, (0, 0, 0, 1))


def _divided(table: Table, width: int) -> list[Table]:
    """Divide a table into parts that fit without folding heads and numbers, all with its keys.

    Names fold where a table needs fewer parts for it, but not where it needs as many without. A
    table that is cut has the first part alone, without folded names.
    """
    columns = range(len(table.headers))
    folded = [_whole_width(table, i) for i in columns]
    whole = [max(wide, min(_width(table, i), _KEY_WIDTH)) for i, wide in enumerate(folded)]
    fewest, others = (_parts(table, widths, width) for widths in (folded, whole))
    if table.is_cut:
        return [_columns(table, others[0])]
    return [_columns(table, part) for part in (others if len(others) == len(fewest) else fewest)]


def _parts(table: Table, widths: list[int], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is divided, where they have these widths."""
    keys = [*range(table.keys)]
    room = width - sum(widths[i] + _GAP for i in keys) - 1  # as `_widths` counts
    parts: list[list[int]] = [[]]
    remaining = room
    for i in range(table.keys, len(table.headers)):
        wide = widths[i] + _GAP
        if parts[-1] and wide > remaining:
            parts.append([])
            remaining = room
        parts[-1].append(i)
        remaining -= wide
    return [[*keys, *part] for part in parts]


def _columns(table: Table, chosen: list[int]) -> Table:
    return Table(
        tuple(table.headers[i] for i in chosen),
        tuple(tuple(row[i] for i in chosen) for row in table.rows),
        frozenset(index for index, i in enumerate(chosen) if i in table.numeric),
        table.keys,
    )


def _table(table: Table, width: int) -> Padding:
    """Return the table between two empty lines, without lines of its own."""
    grid = RichTable(box=None, padding=(0, _GAP - 1, 0, 1))
    widths = _widths(table, width)
    for i, wide in enumerate(widths):
        right = i in table.numeric
        title = _folded(table.headers[i], wide)
        grid.add_column(title, justify="right" if right else "left", width=wide)
    for row in table.rows:
        grid.add_row(*map(_folded, row, widths))
    return Padding(grid, (1, 0))


def _widths(table: Table, width: int) -> list[int]:
    """Return the widths of the columns: heads first, then numbers, names, and the rest."""
    # The widths are fixed here because rich crops a table that it cannot shrink.
    columns = range(len(table.headers))
    least = [_least_width(table, i) for i in columns]
    whole = [_whole_width(table, i) for i in columns]
    keys = range(table.keys)
    named = [max(whole[i], min(_width(table, i), _KEY_WIDTH if i in keys else 0)) for i in columns]
    texts = [max(_width(table, i), whole[i]) if i else named[i] for i in columns]
    natural = [max(_width(table, i), cell_len(visible(table.headers[i]))) for i in columns]
    room = width - _GAP * len(natural) - 1
    widths = _share(room, least)
    for wanted in (whole, named, texts, natural):
        missing = [max(0, more - now) for more, now in zip(wanted, widths, strict=True)]
        given = _share(room - sum(widths), missing)
        widths = [now + more for now, more in zip(widths, given, strict=True)]
    return widths


def _share(room: int, wanted: list[int]) -> list[int]:
    """Share the room: no column gets more than it wants, and none too little because of others."""
    given = [0] * len(wanted)
    remaining = len(wanted)
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        given[i] = min(wanted[i], room // remaining)
        room -= given[i]
        remaining -= 1
    return given


def _least_width(table: Table, column: int) -> int:
    """Return the width below which a head or a cell folds badly."""
    head = table.headers[column]
    whole = cell_len(visible(head))
    parts = [_part_width(row[column]) for row in table.rows]
    text = 0 if column in table.numeric else min(_width(table, column), _TEXT_WIDTH)
    return max(whole if whole <= _HEAD_WIDTH else _part_width(head), *parts, text, 1)


def _whole_width(table: Table, column: int) -> int:
    """Return the least width of a column, in which numbers do not fold either."""
    least = _least_width(table, column)
    return max(least, _width(table, column)) if column in table.numeric else least


def _part_width(cell: str) -> int:
    """Return the width of the longest part of a cell, below which it folds badly."""
    return max((cell_len(part.rstrip()) for part in _PART.findall(visible(cell))), default=0)


def _folded(cell: str, width: int) -> Text:
    """Fold a cell into lines, with as many whole parts in a line as fit."""
    lines = [""]
    for part in _PART.findall(visible(cell)):
        if lines[-1] and cell_len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(line.rstrip() for line in lines), overflow="fold")


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
    """Write the document, with tables in GitHub's syntax; without a heading if it has no title."""
    lines = [f"# {escape(document.title)}"] if document.title else []
    for index, section in enumerate(document.sections):
        if index > 0 and section.title:
            lines.append(f"## {escape(section.title)}")
        lines += _markdown_parts(section)
    return "\n\n".join(lines) + "\n"


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
    return [
        *_markdown_facts(section.facts),
        *map(_markdown_table, section.tables),
        *_markdown_facts(section.doubts),
        *map(escape, section.notes),
    ]


def _markdown_facts(facts: Iterable[Fact]) -> list[str]:
    lines = [f"- **{escape(fact.label)}**: {escape(fact.text)}" for fact in facts]
    return ["\n".join(lines)] if lines else []


def _markdown_table(table: Table) -> str:
    rule = ("---:" if i in table.numeric else "---" for i in range(len(table.headers)))
    lines = [map(escape, table.headers), rule, *(map(escape, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
