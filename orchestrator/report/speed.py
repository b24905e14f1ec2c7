"""The sections that put arms beside their baselines: fair pairs first, the others apart."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report.comparison import Comparison, Contrast
from orchestrator.report.document import Row, Section, Table
from orchestrator.report.numbers import ratio
from orchestrator.report.summary import ReportSummary
from orchestrator.report.wording import (
    ArmNames,
    accuracy_of,
    accuracy_text,
    block_notes,
    contrast_note,
    speed_notes,
)

_ACCURACY = (
    "Δ val_accuracy is the arm's minus the baseline's, averaged over blocks with a 95 % t interval;"
    " an interval that includes 0 does not show that they are equal."
)


def speed(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Every arm over its baseline."""
    if not summary.comparisons or summary.baseline is None:
        return None
    headers = ("arm", "speed-up (95 %)", "blocks", "verdict")
    rows = [
        (name(c.arm), ratio(c.speedup), str(len(c.pairs)), c.verdict) for c in summary.comparisons
    ]
    notes = [*speed_notes(summary), *block_notes(summary, name)]
    table, more = _with_accuracy(headers, rows, summary.comparisons)
    title = f"Speed-up over {_baseline(summary, name)}"
    return Section(title, tables=(table,), paragraphs=(*notes, *more))


def contrasts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Every arm that computes something else than its baseline: a ratio, and no verdict."""
    if not summary.different_mathematics:
        return None
    headers = ("arm", "ratio of times (95 %)", "blocks")
    rows = [
        (name(c.arm), ratio(c.time_ratio), str(len(c.pairs))) for c in summary.different_mathematics
    ]
    notes = [contrast_note(summary, _baseline(summary, name))]
    if not summary.comparisons:  # else they stand there
        notes += block_notes(summary, name)
    table, more = _with_accuracy(headers, rows, summary.different_mathematics)
    differs = ", ".join(dict.fromkeys(c.mathematics for c in summary.different_mathematics))
    return Section(f"Different mathematics: {differs}", tables=(table,), paragraphs=(*notes, *more))


def _with_accuracy(
    headers: Row, rows: Sequence[Row], found: Sequence[Comparison | Contrast]
) -> tuple[Table, tuple[str, ...]]:
    """The table, with a column for the differences in accuracy where any could be told."""
    if not any(accuracy_of(each) for each in found):
        return Table(headers, tuple(rows), _numeric(headers)), ()
    wider = tuple((*row, accuracy_text(each)) for row, each in zip(rows, found, strict=True))
    headers = (*headers, "Δ val_accuracy (95 %)")
    return Table(headers, wider, _numeric(headers)), (_ACCURACY,)


def _numeric(headers: Row) -> frozenset[int]:
    return frozenset(i for i, head in enumerate(headers) if "%" in head or head == "blocks")


def _baseline(summary: ReportSummary, name: ArmNames) -> str:
    over = summary.baseline
    assert over is not None  # what is compared, is compared with something
    each = " on the same hardware" if over.scope == "same hardware" else ""
    return next((name(a) for a in over.of.values() if str(a) == over.name), over.name) + each
