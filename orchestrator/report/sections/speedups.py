"""The sections that compare arms with their baselines: by speed, and by the way to an accuracy."""

from collections import Counter, defaultdict
from collections.abc import Callable
from math import isclose
from typing import Any

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.comparisons.targets import (
    ExpenseToTarget,
    Target,
    TargetArm,
    TargetComparison,
)
from orchestrator.analysis.statistics import formatting
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Spread
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.wording import ArmNames, accuracy_text, grouped, paragraphs, sentence

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
        Column("speed-up (95 %)", lambda c: c.speedup, show=formatting.speed_ratio, numeric=True),
        Column(
            "corrected",
            lambda c: c.corrected,
            show=lambda e: formatting.ratio_interval(formatting.natural(e)),
            numeric=True,
        ),
        Column("blocks", lambda c: len(c.pairs), numeric=True),
        Column("verdict", lambda c: c.label),
    ]
    learned: list[Column[Comparison]] = [
        Column("arm", lambda c: name(c.arm)),
        Column("Δ val_accuracy (95 %)", accuracy_text, numeric=True),
        Column(
            "corrected",
            lambda c: c.accuracy and c.accuracy.corrected,
            show=formatting.difference_interval,
            numeric=True,
        ),
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
    texts = (f"{formatting.joined(arms)} {reason}" for reason, arms in reasons.items())
    return "; ".join(texts) or "no trial complete"


_NEVER = "never"
"""The text of a quartile among the trials that did not reach the target."""
_KINDS = {"less": "faster", "more": "slower"}
"""The kind of verdict, which decides the colour, by comparison."""


def target_verdicts(summary: ReportSummary, name: ArmNames) -> list[tuple[str, str]]:
    """Write a kind and a sentence for each comparison of time to a target."""
    return [
        (_KINDS.get(comparison.verdict, comparison.verdict), _sentence(target, comparison, name))
        for target in summary.targets
        for comparison in target.comparisons
    ]


def attainment(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List what each arm needs to reach the targets, and compare it with its baseline."""
    if not summary.targets:
        return None
    tables = [_table(target, name) for target in summary.targets if target.arms]
    title = "To val_accuracy " + formatting.joined(
        [formatting.number(target.accuracy) for target in summary.targets]
    )
    notes = paragraphs(
        "sections/targets.j2",
        targets=summary.targets,
        has_expenses=any(a.energy_j or a.cost_usd for t in summary.targets for a in t.arms),
    )
    return Section(title, tables=tuple(tables), paragraphs=notes)


def _sentence(target: Target, comparison: TargetComparison, name: ArmNames) -> str:
    """Write the verdict, with the blocks that are not compared: `(only torch/fused in 2)`."""
    counts = (
        (f"only {name(comparison.arm)}", comparison.only_arm),
        (f"only {name(comparison.baseline)}", comparison.only_baseline),
        ("neither", comparison.neither),
    )
    return sentence(
        "sections/target.j2",
        c=comparison,
        name=name,
        goal=f"val_accuracy {formatting.number(target.accuracy)}",
        blocks=comparison.both + _other_blocks(comparison),
        others=[f"{who} in {blocks}" for who, blocks in counts if blocks],
    )


def _reached(arm: TargetArm) -> str:
    """Write `20 of 40`, and how many of the others diverged."""
    text = f"{arm.time_s.reached} of {arm.time_s.trials}"
    return f"{text}, {arm.diverged} diverged" if arm.diverged else text


def _table(target: Target, name: ArmNames) -> Table:
    comparisons = {comparison.arm: comparison for comparison in target.comparisons}
    scoped = len({arm.energy_scope for arm in target.arms if arm.energy_j}) > 1

    def compared(value: Callable[[TargetComparison], Any]) -> Callable[[TargetArm], Any]:
        return lambda row: value(comparisons[row.arm]) if row.arm in comparisons else None

    columns: list[Column[TargetArm]] = [
        Column(f"to {formatting.number(target.accuracy)}", lambda row: name(row.arm)),
        Column("reached", _reached, numeric=True),
        Column("time", lambda row: row.time_s, "s", _cell),
        Column("energy", lambda row: row.energy_j, "J", _cell, optional=True),
        Column("cost", lambda row: row.cost_usd, "USD", _cell, optional=True),
        Column("energy of", lambda row: (scoped and row.energy_scope) or None, optional=True),
        Column("ratio (95 %)", compared(lambda c: c.ratio), show=formatting.ratio, optional=True),
        Column(
            "corrected",
            compared(lambda c: c.corrected),
            show=formatting.ratio_interval,
            optional=True,
        ),
        Column("both", compared(lambda c: c.both), optional=True),
        Column("others", compared(_other_blocks), optional=True),
        Column("needs", compared(lambda c: c.verdict), optional=True),
    ]
    return make_table(columns, target.arms, divisible=True)


def _other_blocks(comparison: TargetComparison) -> int:
    return comparison.only_arm + comparison.only_baseline + comparison.neither


def _cell(reached: ExpenseToTarget) -> str:
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is not None and median is not None and high is not None:
        return formatting.quartiles(Spread(reached.trials, median, low, high))
    ends = [_NEVER if end is None else f"{end:.3g}" for end in (low, median, high)]
    return _NEVER if low is None else f"{ends[1]} ({ends[0]}–{ends[2]})"
