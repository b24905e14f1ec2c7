"""The first section of a report: its answers, and what is inconclusive."""

from __future__ import annotations

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section
from orchestrator.report.sections.targets import target_verdicts
from orchestrator.report.wording import answers
from orchestrator.report.wording.sentences import (
    ArmNames,
    best_sentence,
    contrast_sentence,
    scope_notes,
    verdict_sentence,
)


def verdicts(summary: ReportSummary, name: ArmNames) -> Section:
    """Write rankings, one sentence a comparison, crossovers, and the best config."""
    bullets = [*answers.ranked(summary, name), *_compared(summary, name)]
    bullets += [
        ("different mathematics", contrast_sentence(c, name)) for c in summary.different_mathematics
    ]
    if not summary.trials:
        bullets = [("no trials", "no trial has ended yet")]
    elif not bullets:
        bullets = [("one arm", "there is no second arm to compare with")]
    if len(summary.comparisons) <= answers.NAMED:
        bullets += target_verdicts(summary, name)
    bullets += [*answers.crossings(summary, name), *answers.compiling(summary, name)]
    best = best_sentence(summary, name)
    bullets += [("best", best)] if best else []
    notes = [*scope_notes(summary), *_timing_note(summary)]
    return Section("Verdict", tuple(bullets), paragraphs=tuple(notes))


def _timing_note(summary: ReportSummary) -> list[str]:
    """Explain the limits of arms that were timed in slices."""
    if all(cell.mode == "full" for cell in summary.matrix.cells):
        return []
    return [
        "Arms on hardware [timing] were timed in short slices that took turns. They have times per "
        "step and no accuracy; accuracies come from whole trainings only."
    ]


def _compared(summary: ReportSummary, name: ArmNames) -> list[answers.Bullet]:
    """Write one sentence a comparison, or one for all if there are many."""
    over = summary.baseline
    if over is not None and len(summary.comparisons) > answers.NAMED:
        return [answers.counted(summary.comparisons, over.name)]
    return [(c.verdict, verdict_sentence(c, name)) for c in summary.comparisons]
