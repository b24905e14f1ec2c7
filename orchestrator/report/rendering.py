"""A sweep's record summarised, and the summary as text, Markdown, JSON, CSV or a page."""

# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Literal, TypeAlias

from orchestrator.report.baseline import BaselineError
from orchestrator.report.json_object import to_json
from orchestrator.report.markdown import to_markdown
from orchestrator.report.rows import to_csv
from orchestrator.report.sections import document
from orchestrator.report.summary import ReportSummary, summarise
from orchestrator.report.text import to_text

__all__ = ["BaselineError", "ReportFormat", "ReportSummary", "render", "summarise"]

ReportFormat: TypeAlias = Literal["text", "markdown", "json", "csv", "html"]


def render(
    summary: ReportSummary, format: ReportFormat, *, width: int = 100, colour: bool = False
) -> str:
    """The report as one string that ends with a newline.

    Args:
        summary: what `summarise` gave.
        format: `text` for a terminal, `markdown` for GitHub and MLflow, `json` for programs (one
            versioned object), `csv` for spreadsheets (one row a trial), `html` for a browser (one
            page by itself).
        width: the columns of a terminal; for `text` only.
        colour: whether terminal codes may be in it; for `text` only.

    Raises:
        ValueError: an unknown format.
    """
    if format == "text":
        return to_text(document(summary), width, colour=colour)
    if format == "markdown":
        return to_markdown(document(summary))
    if format == "json":
        return to_json(summary)
    if format == "csv":
        return to_csv(summary.trials, summary.matched_runs)
    if format == "html":
        from orchestrator.report.page import to_html  # its plots take long to import

        return to_html(summary).rstrip() + "\n"
    raise ValueError(f"unknown format {format!r}: expected text, markdown, json, csv or html")
