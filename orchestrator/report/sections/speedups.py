"""The sections that compare arms with their baselines: fair pairs, then different mathematics."""

from __future__ import annotations

from math import isclose

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import CONFIDENCE
from orchestrator.analysis.statistics.formatting import (
    ABSENT,
    difference_interval,
    ratio,
    ratio_interval,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Row, Section, Table
from orchestrator.report.sections.notes import (
    accuracy_note,
    block_notes,
    contrast_note,
    speed_notes,
)
from orchestrator.report.wording.sentences import ArmNames, accuracy_text


def speed(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare every arm with its baseline: speed, and accuracy if there is any."""
    if not summary.comparisons or summary.baseline is None:
        return None
    tables = [_speed_table(summary, name)]
    notes = [*speed_notes(summary), *block_notes(summary, name)]
    if accuracies := [c.accuracy for c in summary.comparisons if c.accuracy]:
        tables.append(_accuracy_table(summary, name))
        notes.append(accuracy_note(accuracies[0]))
    title = f"Speed-up over {_baseline(summary, name)}"
    return Section(title, tables=tuple(tables), paragraphs=tuple(notes))


def contrasts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List every arm that computes something else than its baseline: a ratio, no verdict."""
    unlike = summary.different_mathematics
    if not unlike:
        return None
    headers: Row = ("arm", "ratio of times (95 %)", "blocks")
    rows: list[Row] = [(name(c.arm), ratio(c.time_ratio), str(len(c.pairs))) for c in unlike]
    notes = [contrast_note(summary, _baseline(summary, name))]
    if not summary.comparisons:  # otherwise that section has them
        notes += block_notes(summary, name)
    if any(c.accuracy_difference for c in unlike):
        headers = (*headers, "Δ val_accuracy (95 %)")
        rows = [(*row, accuracy_text(c)) for row, c in zip(rows, unlike, strict=True)]
        notes.append(accuracy_note(None))
    differs = ", ".join(dict.fromkeys(c.mathematics for c in unlike))
    table = Table(headers, tuple(rows), _numeric(headers))
    return Section(f"Different mathematics: {differs}", tables=(table,), paragraphs=tuple(notes))


def _speed_table(summary: ReportSummary, name: ArmNames) -> Table:
    """Make the table, with corrected intervals if they differ from the plain ones."""
    comparisons = summary.comparisons
    corrected = any(_corrected(c.confidence, c.plain_confidence) for c in comparisons)
    headers = ("arm", "speed-up (95 %)", *(["corrected"] if corrected else []), "blocks", "verdict")
    rows = tuple(
        (
            name(c.arm),
            ratio(c.speedup),
            *([ratio_interval(c.corrected)] if corrected else []),
            _blocks(c),
            c.verdict,
        )
        for c in comparisons
    )
    return Table(headers, rows, _numeric(headers))


def _accuracy_table(summary: ReportSummary, name: ArmNames) -> Table:
    pairs = [(c, c.accuracy) for c in summary.comparisons]
    corrected = any(_corrected(a.confidence, CONFIDENCE) for _, a in pairs if a)
    headers = (
        "arm",
        "Δ val_accuracy (95 %)",
        *(["corrected"] if corrected else []),
        "accuracy",
    )
    rows = tuple(
        (
            name(c.arm),
            accuracy_text(c),
            *([difference_interval(a.corrected if a else None)] if corrected else []),
            a.verdict if a else ABSENT,
        )
        for c, a in pairs
    )
    return Table(headers, rows, _numeric(headers))


def _corrected(confidence: float | None, plain: float) -> bool:
    """Check that an interval differs from the plain one."""
    return confidence is not None and not isclose(confidence, plain, rel_tol=1e-9)


def _blocks(comparison: Comparison) -> str:
    """Write `8`, or `8 (3 disturbed)` if disturbed rounds count because too few are quiet."""
    disturbed = 0 if comparison.quiet_only else len(comparison.disturbed_blocks)
    return f"{len(comparison.pairs)}{f' ({disturbed} disturbed)' if disturbed else ''}"


def _numeric(headers: Row) -> frozenset[int]:
    numeric = ("blocks", "corrected")
    return frozenset(i for i, head in enumerate(headers) if "%" in head or head in numeric)


def _baseline(summary: ReportSummary, name: ArmNames) -> str:
    over = summary.baseline
    assert over is not None  # a comparison has a baseline
    place = " on the same hardware" if over.scope == "same hardware" else ""
    return next((name(a) for a in over.of.values() if str(a) == over.name), over.name) + place
