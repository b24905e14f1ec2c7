"""The short report: of `--brief`, and as MLflow shows it as a run's description."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.analysis.statistics.formatting import count
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Document, Section
from orchestrator.report.formats.markdown import escape, section
from orchestrator.report.sections.matrix_and_sizes import matrix
from orchestrator.report.sections.speedups import contrasts, speed
from orchestrator.report.sections.verdict import verdicts
from orchestrator.report.wording.sentences import ArmNames, arm_names


def to_short_markdown(
    summary: ReportSummary, limit: int, whole: str = "the artifacts of this run"
) -> str:
    """Verdict, what its figures rest on in short, and tables of speed as far as there is room.

    MLflow cuts a longer description without a word. So this is cut beforehand, between sections
    and between sentences only, and says where the whole report is.

    Args:
        summary: what `summarise` gave.
        limit: the most characters, which is as many as the store keeps.
        whole: where the whole report is, as a reader who sees this one would say it.
    """
    name = arm_names(summary)
    head, foot = f"# {escape(_title(summary))}", escape(f"The whole report is in {whole}.")
    room = limit - len(head) - len(foot) - 2 * len(_GAP) - 1
    parts: list[str] = []
    for part in (*_parts(summary, name), _without_notes(matrix, summary, name)):
        if part and (kept := _fitting(part, room)):
            parts.append(kept)
            room -= len(kept) + len(_GAP)
    return _GAP.join([head, *parts, foot])[: limit - 1] + "\n"


def in_brief(summary: ReportSummary) -> Document:
    """The same for a terminal, without the matrix, which is long where there are many arms."""
    foot = Section("More", paragraphs=("The whole report: the same command without --brief.",))
    return Document(_title(summary), (*_parts(summary, arm_names(summary)), foot))


_GAP = "\n\n"


def _title(summary: ReportSummary) -> str:
    return f"Sweep {summary.sweep.label}: {summary.sweep.workload}"


def _parts(summary: ReportSummary, name: ArmNames) -> list[Section]:
    """In the order of their worth."""
    found: list[Section | None] = [
        verdicts(summary, name),
        _in_short(summary),
        *(_without_notes(make, summary, name) for make in (speed, contrasts)),
    ]
    return [each for each in found if each is not None]


def _without_notes(
    make: Callable[[ReportSummary, ArmNames], Section | None],
    summary: ReportSummary,
    name: ArmNames,
) -> Section | None:
    found = make(summary, name)
    return found and Section(found.title, found.bullets, found.tables)


def _in_short(summary: ReportSummary) -> Section:
    trials, found = summary.sweep.trials, summary.validity
    proven = sum(proof.proven for proof in found.arms)
    told = [
        f"{trials.complete} of {count(trials.expected, 'trial')} complete, {trials.failed} failed, "
        f"{trials.wrong_kernel} ran another kernel, {trials.missing} missing; "
        f"{count(found.rounds, 'round')} complete on every arm, {found.disturbed_rounds} of them "
        f"disturbed; kernels proven in {proven}."
    ]
    if summary.impossible:
        told.append(f"{count(len(summary.impossible), 'arm')} cannot run here.")
    return Section("Validity in short", paragraphs=tuple(told))


def _fitting(part: Section, room: int) -> str:
    """The section whole; else without its last tables, then sentences; else nothing."""
    tables, bullets = part.tables, part.bullets
    while True:
        dropped = len(part.bullets) - len(bullets)
        notes = (*part.paragraphs, *([f"{dropped} more in the whole report."] if dropped else []))
        written = section(Section(part.title, bullets, tables, notes))
        if len(written) <= room:
            return written
        if tables:
            tables = tables[:-1]
        elif bullets:
            bullets = bullets[:-1]
        else:
            return ""
        if not (tables or bullets):
            return ""
