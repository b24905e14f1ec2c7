"""The formats of a report. A new one is a function that writes it, and an entry of `FORMATS`.

The command line, Python and the store of a sweep read this list. Each writer is imported when it is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.analysis.summary import ReportSummary
    from orchestrator.report.charts.chart import ChartBuilder
    from orchestrator.report.document import Document


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A report before it takes a format: the summary, its parts as a document, and the charts.

    The width, in columns of a terminal, and the colours are for text only.
    """

    summary: ReportSummary
    document: Document
    charts: Sequence[ChartBuilder]
    width: int
    colour: bool


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """A format of a report: its name, the suffix of its files, and the function that writes it.

    Single parts of a report can be written in it if it `has_parts`. If it `is_short`, the answer
    alone is written unless more is asked for.
    """

    name: str
    suffix: str
    write: Callable[[ReportContent], str]
    has_parts: bool = True
    is_short: bool = False


def _text(content: ReportContent) -> str:
    from orchestrator.report.formats.text import to_text  # noqa: PLC0415  (rich)

    return to_text(content.document, content.width, colour=content.colour)


def _markdown(content: ReportContent) -> str:
    from orchestrator.report.formats.text import to_markdown  # noqa: PLC0415

    return to_markdown(content.document)


def _json(content: ReportContent) -> str:
    from orchestrator.report.formats.json_format import summary_json  # noqa: PLC0415

    return summary_json(content.summary)


def _html(content: ReportContent) -> str:
    from orchestrator.report.formats.html import to_html  # noqa: PLC0415  (charts)

    return to_html(content.summary, content.document, content.charts)


FORMATS: Mapping[str, ReportFormat] = {
    form.name: form
    for form in (
        ReportFormat("text", ".txt", _text, is_short=True),
        ReportFormat("markdown", ".md", _markdown),
        ReportFormat("json", ".json", _json, has_parts=False),
        ReportFormat("html", ".html", _html, has_parts=False),
    )
}
"""The formats by their names; the first one is the default."""

SUFFIXES: Mapping[str, str] = {form.name: form.suffix for form in FORMATS.values()}
"""The suffix of the files of each format."""
