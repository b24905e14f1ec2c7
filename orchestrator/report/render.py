"""Rendering of a summary as text, Markdown, JSON, CSV or an HTML page; text is short by default."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from orchestrator.analysis.pairing.pairs import BaselineError
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.charts import CHARTS
from orchestrator.report.charts.chart import ChartBuilder
from orchestrator.report.document import PARTS, Document, Section
from orchestrator.report.formats.csv_rows import to_csv
from orchestrator.report.formats.html import to_html
from orchestrator.report.formats.json_format import summary_json
from orchestrator.report.formats.text import to_markdown, to_text
from orchestrator.report.sections.answer import answer
from orchestrator.report.sections.document import SECTIONS, ReportSection, document
from orchestrator.report.sections.doubts import RESUME

__all__ = ["BaselineError", "ReportFormat", "ReportSummary", "render", "summarise"]

ReportFormat: TypeAlias = Literal["text", "markdown", "json", "csv", "html"]

MOST_LINES = 40
"""The length of the short report, which fits on a screen."""

_MOST_ROWS, _FEWEST_ROWS = 30, 3


def render(  # noqa: PLR0913
    summary: ReportSummary,
    format: ReportFormat,
    *,
    width: int = 100,
    colour: bool = False,
    full: bool = False,
    parts: Collection[str] = (),
    resume: str = RESUME,
    retry: str | None = None,
    sections: Sequence[ReportSection] = SECTIONS,
    charts: Sequence[ChartBuilder] = CHARTS,
) -> str:
    """Return the report as one string that ends with a newline; ValueError for another format.

    `text` is the short report of at most `MOST_LINES`, unless it is to be `full`. Text and Markdown
    can have some `parts` alone, keys of `PARTS`. The width (columns of a terminal) and the colours
    are for text only, and so are the commands `resume` and `retry` that the short report names.

    `sections` and `charts` are those of the full report; the JSON and CSV formats have none.
    """
    if format == "text" and not (full or parts):
        return _short_text(summary, width, colour=colour, resume=resume, retry=retry)
    if format == "text":
        return to_text(_chosen(document(summary, sections), parts), width, colour=colour)
    if format == "markdown":
        return to_markdown(_chosen(document(summary, sections), parts))
    if format == "json":
        return summary_json(summary)
    if format == "csv":
        return to_csv(summary.trials, summary.matched_runs)
    if format == "html":
        return to_html(summary, sections, charts).rstrip() + "\n"
    raise ValueError(f"unknown format {format!r}: expected text, markdown, json, csv or html")


def to_short_markdown(
    summary: ReportSummary, limit: int, whole: str = "the artifacts of this run"
) -> str:
    """Write the short report as Markdown of fewer characters than `limit`.

    MLflow silently cuts a description that is longer. So this one has fewer rows and sections, and
    names the place of the `whole`.
    """
    rest = f"The full report is in {whole}."
    for shorter in _shorter(summary, rest=rest):
        text = to_markdown(shorter)
        if len(text) < limit:
            break
    return text[: limit - 1]


def _short_text(
    summary: ReportSummary, width: int, *, colour: bool, resume: str, retry: str | None
) -> str:
    for shorter in _shorter(summary, resume=resume, retry=retry):
        text = to_text(shorter, width, colour=colour)
        if text.count("\n") <= MOST_LINES:
            break
    return text


def _shorter(
    summary: ReportSummary,
    *,
    resume: str = RESUME,
    retry: str | None = None,
    rest: str | None = None,
) -> Iterator[Document]:
    """Yield the short report with ever fewer rows of arms, then sentences, then sections."""
    rows = min(len(summary.arms), _MOST_ROWS)
    for most in range(rows, min(rows, _FEWEST_ROWS) - 1, -1):
        report = answer(summary, most, resume=resume, retry=retry, rest=rest)
        yield report
    first, *others, last = report.sections
    while len(first.bullets) > 1:
        first = replace(first, bullets=first.bullets[:-1])
        yield replace(report, sections=(first, *others, last))
    while others:
        others.pop()
        yield replace(report, sections=(first, *others, last))


def _chosen(report: Document, parts: Collection[str]) -> Document:
    """Return the report with these parts alone; all of them if there are none."""
    used = {section.part for section in report.sections}
    missing = (
        Section(PARTS[part], paragraphs=("This sweep has no figures for it.",), part=part)
        for part in PARTS
        if part in parts and part not in used
    )
    kept = (section for section in report.sections if not parts or section.part in parts)
    return replace(report, sections=(*kept, *missing))
