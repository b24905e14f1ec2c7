"""A document as a piece of HTML, such as a notebook shows below a cell."""

from collections.abc import Iterator, Sequence
from html import escape

from orchestrator.report.document import Document, Fact, Section, Table, visible


def to_fragment(document: Document) -> str:
    """Write the document without scripts and colours of its own; all texts are escaped."""
    parts = [f"<h3>{_text(document.title)}</h3>"]
    for section in document.sections:
        parts += _section(section)
    return f'<div class="rnnsweep">{"".join(parts)}</div>'


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield f"<h4>{_text(section.title)}</h4>"
    yield _facts(section.facts)
    yield from map(_table, section.tables)
    yield _facts(section.doubts)
    yield from (f"<p>{_text(note)}</p>" for note in section.notes)


def _facts(facts: Sequence[Fact]) -> str:
    items = (f"<li><b>{_text(fact.label)}</b>: {_text(fact.text)}</li>" for fact in facts)
    return f"<ul>{''.join(items)}</ul>" if facts else ""


def _table(table: Table) -> str:
    aligned = ["right" if at in table.numeric else "left" for at in range(len(table.headers))]
    head = "".join(
        f'<th style="text-align:{side};white-space:nowrap">{_text(title)}</th>'
        for title, side in zip(table.headers, aligned, strict=True)
    )
    rows = (
        "".join(
            f'<td style="text-align:{side}">{_text(cell)}</td>'
            for cell, side in zip(row, aligned, strict=True)
        )
        for row in table.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(visible(text))
