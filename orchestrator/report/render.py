"""Rendering of a summary as text, Markdown, JSON, CSV or an HTML page."""

from __future__ import annotations

from typing import Literal, TypeAlias

from orchestrator.analysis.pairing.baseline import BaselineError
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.brief import in_brief
from orchestrator.report.formats.csv_rows import to_csv
from orchestrator.report.formats.html import to_html
from orchestrator.report.formats.json_format import to_json
from orchestrator.report.formats.markdown import to_markdown
from orchestrator.report.formats.text import to_text
from orchestrator.report.sections.document import document

__all__ = ["BaselineError", "ReportFormat", "ReportSummary", "render", "summarise"]

ReportFormat: TypeAlias = Literal["text", "markdown", "json", "csv", "html"]


def render(
    summary: ReportSummary,
    format: ReportFormat,
    *,
    width: int = 100,
    colour: bool = False,
    brief: bool = False,
) -> str:
    """Return the report as one string that ends with a newline.

    Args:
        summary: The result of `summarise`.
        format: `text` for a terminal, `markdown` for GitHub and MLflow, `json` for programs (one
            versioned object), `csv` for spreadsheets (one row per trial), `html` for a browser (one
            self-contained page).
        width: The columns of the terminal; for `text` only.
        colour: Use terminal colours; for `text` only.
        brief: Write only the verdict, validity in short, and the speed-ups; for `text` and
            `markdown` only.

    Raises:
        ValueError: The format is unknown.
    """
    if format == "text":
        return to_text(in_brief(summary) if brief else document(summary), width, colour=colour)
    if format == "markdown":
        return to_markdown(in_brief(summary) if brief else document(summary))
    if format == "json":
        return to_json(summary)
    if format == "csv":
        return to_csv(summary.trials, summary.matched_runs)
    if format == "html":
        return to_html(summary).rstrip() + "\n"
    raise ValueError(f"unknown format {format!r}: expected text, markdown, json, csv or html")
