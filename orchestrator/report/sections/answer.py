"""The short report: the answer, the arms, what is missing or doubtful, and where the rest is."""

import shlex
from dataclasses import replace

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted
from orchestrator.report.document import PARTS, Bullet, Document, Kind, Section
from orchestrator.report.sections.doubts import doubts, section_of_doubts
from orchestrator.report.sections.fastest import answer_bullets, arms_table
from orchestrator.report.sections.headlines import Headline, headlines
from orchestrator.report.sections.mathematics import mathematics_sentence
from orchestrator.report.sections.progress import progress_sentence
from orchestrator.report.sections.speed import baseline_name
from orchestrator.report.sections.targets import targets_section
from orchestrator.report.usage import usage_lines
from orchestrator.report.wording import arm_names, config_phrase

_MOST_HEADLINES = 4

USAGE, TO_TARGETS = "usage", "targets"
"""The keys of the sections on how the fastest arm is put to use, and on the targets."""


def answer(
    summary: ReportSummary,
    most: int | None = None,
    *,
    rest: str | None = None,
) -> Document:
    """Make the short report, with at most so many rows in each table.

    `rest` is the place of the full report.
    """
    heads = headlines(summary)
    bullets = [*answer_bullets(summary, heads[:_MOST_HEADLINES], is_short=True)]
    if len(heads) > _MOST_HEADLINES:
        hidden = len(heads) - _MOST_HEADLINES
        command = f"{report_command(summary)} --section fastest"
        bullets.append(Bullet(Kind.MORE, f"{hidden} more on other hardware: {command}"))
    mathematics = mathematics_sentence(summary)
    paragraphs = (progress_sentence(summary), *([mathematics] if mathematics else []))
    sections = [Section("", tuple(bullets), paragraphs=paragraphs)]
    if most != 0 and any(row.measures for row in summary.arms):
        sections.append(_arms(summary, most))
    targets = targets_section(summary, arm_names(summary))
    if targets:
        tables = tuple(replace(table, rows=table.rows[:most]) for table in targets.tables)
        sections.append(replace(targets, tables=tables, explanations=(), key=TO_TARGETS))
    doubtful = section_of_doubts(doubts(summary))
    if doubtful:
        sections.append(doubtful)
    sections += usage_sections(summary, heads[0])
    sections.append(Section("More", paragraphs=(rest or _rest(summary),)))
    return Document(title(summary), tuple(sections))


def usage_sections(summary: ReportSummary, head: Headline) -> list[Section]:
    """Write how the fastest arm is put to use; nothing where it is open which one that is."""
    if head.kind != Kind.FASTEST or head.leader is None:
        return []
    lines = usage_lines(head.leader, summary.trials)
    title = f"To use {head.leader.short_name}"
    if head.leader.variant and head.leader.variant.settings:
        title += f", with {config_phrase(head.leader.variant.settings)}"
    return [Section(title, paragraphs=lines, key=USAGE)] if lines else []


def title(summary: ReportSummary) -> str:
    """Return the title of a report."""
    return f"Sweep {summary.sweep.label}: {summary.sweep.workload}"


def _arms(summary: ReportSummary, most: int | None) -> Section:
    hidden = len(summary.arms) - (most or len(summary.arms))
    notes = (f"{counted(hidden, 'more arm')}: {report_command(summary)} --section fastest",)
    base = baseline_name(summary, arm_names(summary))
    compared = f", compared with {base} (other columns" if summary.comparisons else " (columns"
    return Section(
        f"Arms{compared}: geometric means over configs)",
        tables=(arms_table(summary, most),),
        paragraphs=notes if hidden > 0 else (),
    )


def report_command(summary: ReportSummary) -> str:
    """Return the command that reports on the sweep."""
    return summary.sweep.start.reading("report", summary.sweep.label)


def _rest(summary: ReportSummary) -> str:
    """Write where the rest of a report is."""
    first, *others = PARTS
    trials = f"; the trials: rnnsweep query {shlex.quote(summary.sweep.label)}"
    return (
        f"Everything: {report_command(summary)} --full; one part: --section {first} "
        f"({', '.join(others)}); a page: -o report.html"
        f"{'' if summary.sweep.start.address else trials}"
    )
