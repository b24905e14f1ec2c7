"""Rendering of a summary as text, Markdown, JSON, CSV or an HTML page, whole or in brief."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from orchestrator.analysis.pairing.pairs import BaselineError
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.report.document import Document, Section
from orchestrator.report.formats.csv_rows import to_csv
from orchestrator.report.formats.html import to_html
from orchestrator.report.formats.json_format import to_json
from orchestrator.report.formats.text import escape, section_markdown, to_markdown, to_text
from orchestrator.report.sections.arms import matrix
from orchestrator.report.sections.document import document
from orchestrator.report.sections.speedups import speed
from orchestrator.report.sections.verdict import verdicts
from orchestrator.report.wording import Maker, arm_names, paragraphs

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
    """Return the report as one string that ends with a newline; ValueError for another format.

    The width (columns of a terminal) and the colours are for `text` only. A `brief` report, as text
    or Markdown, has the verdict, validity in short, and the speed-ups.
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


def to_short_markdown(
    summary: ReportSummary, limit: int, whole: str = "the artifacts of this run"
) -> str:
    """Write the verdict, validity in short, and as many tables of speed as fit.

    MLflow silently cuts a description that is longer than its `limit` of characters. So this one is
    cut beforehand, only between sections and between sentences, and names the place of the `whole`.
    """
    head, foot = f"# {escape(_title(summary))}", escape(f"The full report is in {whole}.")
    room = limit - len(head) - len(foot) - 2 * len(_GAP) - 1
    parts: list[str] = []
    for part in _sections(summary, (speed, matrix)):
        if kept := _fitting(part, room):
            parts.append(kept)
            room -= len(kept) + len(_GAP)
    return _GAP.join([head, *parts, foot])[: limit - 1] + "\n"


def in_brief(summary: ReportSummary) -> Document:
    """Make the short report for a terminal, without the matrix, which is long with many arms."""
    foot = Section(
        "More", paragraphs=("For the full report, run the same command without --brief.",)
    )
    return Document(_title(summary), (*_sections(summary, (speed,)), foot))


_GAP = "\n\n"


def _title(summary: ReportSummary) -> str:
    return f"Sweep {summary.sweep.label}: {summary.sweep.workload}"


def _sections(summary: ReportSummary, makers: Iterable[Maker]) -> Iterator[Section]:
    """Make the verdict, validity in short, and these sections without their notes."""
    name = arm_names(summary)
    yield verdicts(summary, name)
    proven = sum(arm.proven for arm in summary.arms)
    notes = paragraphs("sections/in_short.j2", summary=summary, proven=proven)
    yield Section("Validity in short", paragraphs=notes)
    for make in () if summary.is_without_success else makers:
        if section := make(summary, name):
            yield replace(section, paragraphs=())


def _fitting(part: Section, room: int) -> str:
    """Write the section; if it is too long, without its last tables, then sentences; else empty."""
    bullets, tables = part.bullets, part.tables
    while True:
        dropped = len(part.bullets) - len(bullets)
        notes = (*part.paragraphs, *([f"{dropped} more in the full report."] if dropped else []))
        written = section_markdown(Section(part.title, bullets, tables, notes))
        if len(written) <= room:
            return written
        bullets, tables = (bullets, tables[:-1]) if tables else (bullets[:-1], ())
        if not (tables or bullets):
            return ""
