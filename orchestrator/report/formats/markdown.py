"""A document as GitHub-flavoured Markdown; texts from specs and runs never become markup."""

from __future__ import annotations

import re

from orchestrator.report.document import Document, Section, Table, visible

_SPECIAL = re.compile(r"[\\`*\[\]|~$!#]|(?<![^\W_])_|_(?![^\W_])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LIST_START = re.compile(r"^(\d*)([-+=.)])")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")


def to_markdown(document: Document) -> str:
    """Write the document, with tables in GitHub's syntax."""
    parts = [f"# {escape(document.title)}"]
    for number, part in enumerate(document.sections):
        parts += _section(part) if number == 0 else [section_markdown(part)]
    return "\n\n".join(parts) + "\n"


def section_markdown(part: Section) -> str:
    """Write one section with its heading, without a line break at its end."""
    heading = [f"## {escape(part.title)}"] if part.title else []
    return "\n\n".join([*heading, *_section(part)])


def escape(raw: str) -> str:
    """Escape a text so that Markdown shows it unchanged in a paragraph, a heading or a cell.

    The text becomes one line. Backslashes precede emphasis, code, links, images, cells, maths,
    headings and lists. HTML becomes entities. Addresses do not become links.
    """
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), visible(raw))
    text = "".join(_ENTITIES.get(char, char) for char in text)
    text = _LINK.sub(lambda m: f"{m[1] or m[3]}\\{m[2] or m[4]}", text)
    return _LIST_START.sub(r"\1\\\2", text)


def _section(section: Section) -> list[str]:
    bullets = [f"- {escape(sentence)}" for _, sentence in section.bullets]
    return [
        *(["\n".join(bullets)] if bullets else []),
        *map(_table, section.tables),
        *map(escape, section.paragraphs),
    ]


def _table(table: Table) -> str:
    rule = ("---:" if i in table.numeric else "---" for i in range(len(table.headers)))
    lines = [map(escape, table.headers), rule, *(map(escape, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
