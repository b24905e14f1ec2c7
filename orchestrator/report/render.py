"""A sweep's record summarised, and the summary as text, Markdown, JSON, CSV or a page."""

# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Literal, TypeAlias

from orchestrator.analysis.pairing.baseline import BaselineError
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.brief import in_brief
from orchestrator.report.formats.csv_rows import to_csv
from orchestrator.report.formats.json_format import to_json
from orchestrator.report.formats.markdown import to_markdown
from orchestrator.report.formats.text import to_text
from orchestrator.report.sections.document import document

__all__ = ["BRIEF", "BaselineError", "ReportFormat", "ReportSummary", "render", "summarise"]

ReportFormat: TypeAlias = Literal["text", "markdown", "json", "csv", "html"]

BRIEF = ("text", "markdown")
"""The formats that may be brief: programs and spreadsheets want all of it, and a page has a table
of contents."""


def render(
    summary: ReportSummary,
    format: ReportFormat,
    *,
    width: int = 100,
    colour: bool = False,
    brief: bool = False,
) -> str:
    """The report as one string that ends with a newline.

    Args:
        summary: what `summarise` gave.
        format: `text` for a terminal, `markdown` for GitHub and MLflow, `json` for programs (one
            versioned object), `csv` for spreadsheets (one row a trial), `html` for a browser (one
            page by itself).
        width: the columns of a terminal; for `text` only.
        colour: whether terminal codes may be in it; for `text` only.
        brief: the verdict, what it rests on in short, and the speed-ups alone; for `text` and
            `markdown`.

    Raises:
        ValueError: an unknown format, or one that is never brief.
    """
    if brief and format not in BRIEF:
        raise ValueError(f"brief: expected {' or '.join(BRIEF)}, received {format!r}")
    if format == "text":
        return to_text(in_brief(summary) if brief else document(summary), width, colour=colour)
    if format == "markdown":
        return to_markdown(in_brief(summary) if brief else document(summary))
    if format == "json":
        return to_json(summary)
    if format == "csv":
        return to_csv(summary.trials, summary.matched_runs)
    if format == "html":
        from orchestrator.report.formats.html import to_html  # its plots take long to import

        return to_html(summary).rstrip() + "\n"
    raise ValueError(f"unknown format {format!r}: expected text, markdown, json, csv or html")
