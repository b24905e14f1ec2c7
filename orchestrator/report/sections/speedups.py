"""The section that compares arms with their baselines."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import isclose

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    joined,
    natural,
    ratio_interval,
    speed_ratio,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.prose import paragraphs
from orchestrator.report.wording import ArmNames, accuracy_text, grouped

_DAY_S = 86_400.0


def speed(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare every arm with its baseline: speed, and accuracy if there is any."""
    comparisons = summary.comparisons
    if not comparisons or summary.baseline is None:
        return None
    plain = {c.plain_confidence for c in comparisons}
    accuracies = [c.accuracy for c in comparisons if c.accuracy]
    speeds: list[Column[Comparison]] = [
        Column("arm", lambda c: name(c.arm)),
        Column("speed-up (95 %)", lambda c: c.speedup, show=speed_ratio, numeric=True),
        Column("corrected", lambda c: c.corrected, show=_natural_interval, numeric=True),
        Column("blocks", lambda c: len(c.pairs), numeric=True),
        Column("verdict", lambda c: c.label),
    ]
    learned: list[Column[Comparison]] = [
        Column("arm", lambda c: name(c.arm)),
        Column("Δ val_accuracy (95 %)", accuracy_text, numeric=True),
        Column("corrected", _corrected_accuracy, show=difference_interval, numeric=True),
        Column("accuracy", lambda c: c.accuracy and c.accuracy.verdict),
    ]
    # corrected intervals are shown if they differ from the plain ones
    if not _differ([c.confidence for c in comparisons], max(plain)):
        del speeds[2]
    if not _differ([accuracy.confidence for accuracy in accuracies], CONFIDENCE):
        del learned[2]
    if summary.models:  # not all of these have one baseline
        over: Column[Comparison] = Column("over", lambda c: _reference(c, name))
        speeds.insert(1, over)
        learned.insert(1, over)
    tables = [make_table(speeds, comparisons)]
    tables += [make_table(learned, comparisons)] if accuracies else []
    notes = paragraphs(
        "sections/speedups.j2",
        summary=summary,
        judged=sum(comparison.confidence is not None for comparison in comparisons),
        plain=max(plain) if max(plain) > CONFIDENCE else None,
        accuracy=accuracies[0] if accuracies else None,
        blocks_needed=MIN_BLOCKS,
        block_notes=block_notes(summary, name),
    )
    title = f"Speed-up over {_baseline(summary, name)}"
    return Section(title, tables=tuple(tables), paragraphs=notes)


def _reference(comparison: Comparison, name: ArmNames) -> str | None:
    base = comparison.baseline
    if base is None:
        return None
    return base.variant_name if comparison.is_of_variants else name(base)


def _natural_interval(estimate: Estimate) -> str:
    return ratio_interval(natural(estimate))


def _corrected_accuracy(comparison: Comparison) -> Estimate | None:
    return comparison.accuracy.corrected if comparison.accuracy else None


def _differ(confidences: list[float | None], plain: float) -> bool:
    return any(c is not None and not isclose(c, plain, rel_tol=1e-9) for c in confidences)


def _baseline(summary: ReportSummary, name: ArmNames) -> str:
    over = summary.baseline
    assert over is not None  # a comparison has a baseline
    place = " on the same hardware" if over.scope == "same hardware" else ""
    return next((name(a) for a in over.of.values() if str(a) == over.name), over.name) + place


def block_notes(summary: ReportSummary, name: ArmNames) -> tuple[str, ...]:
    """List the blocks and arms that the figures cover, and those that are excluded."""
    gaps = Counter(gap.missing for gap in summary.gaps)
    starts: dict[int, list[float]] = defaultdict(list)
    for trial in summary.trials:
        if trial.status == "complete" and trial.started_s > 0:
            starts[trial.block].append(trial.started_s)
    spans = [max(starts[b]) - min(starts[b]) for b in summary.complete_blocks if b in starts]
    return paragraphs(
        "sections/blocks.j2",
        summary=summary,
        gaps=[f"{counted(n, 'block')} ({_missing(own, name)})" for own, n in gaps.most_common()],
        set_aside=[name(arm) for arm in summary.set_aside] if summary.trials else [],
        former=[name(arm) for arm in summary.former],
        torn=max((c.not_interleaved_rounds for c in summary.comparisons), default=0),
        far_apart=[span / _DAY_S for span in spans if span > _DAY_S],
    )


def _missing(missing: tuple[tuple[Arm, str], ...], name: ArmNames) -> str:
    reasons = grouped((reason.replace("_", " "), name(arm)) for arm, reason in missing)
    texts = (f"{joined(arms)} {reason}" for reason, arms in reasons.items())
    return "; ".join(texts) or "no trial complete"
