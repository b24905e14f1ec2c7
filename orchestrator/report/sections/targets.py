"""The section and the sentences on the time, energy and cost to reach a target accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.analysis.comparisons.targets import (
    ExpenseToTarget,
    Target,
    TargetArm,
    TargetComparison,
)
from orchestrator.analysis.statistics.estimates import Spread
from orchestrator.analysis.statistics.formatting import (
    count,
    joined,
    number,
    quartiles,
    ratio,
    ratio_interval,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.wording.sentences import ArmNames

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
    title = "To val_accuracy " + joined([number(target.accuracy) for target in summary.targets])
    return Section(title, tables=tuple(tables), paragraphs=tuple(_notes(summary)))


def _notes(summary: ReportSummary) -> list[str]:
    notes = [
        f"No figures for val_accuracy {number(target.accuracy)}: no complete trial recorded "
        "val_accuracy by epoch."
        for target in summary.targets
        if not target.arms
    ]
    recorded = [target for target in summary.targets if target.arms]
    if recorded:
        notes.append(
            "A trial reaches a target at the end of the first epoch with that val_accuracy; only "
            "training time counts. Medians and quartiles rank trials that never reach it after all "
            "others. A quartile that falls among them is shown as never."
        )
    if any(arm.energy_j or arm.cost_usd for target in recorded for arm in target.arms):
        notes.append(
            "Energy and cost to the target are estimates: those of the timed epochs (see Energy "
            "and cost) in proportion to the time."
        )
    if any(target.comparisons for target in recorded):
        notes.append(
            "The ratio is the time of the baseline divided by that of the arm, over the blocks in "
            "which all repeats of both reach the target. A block in which only one of them "
            "reaches it counts in favour of that one. A verdict is withdrawn if "
            "significantly more of these blocks contradict it than support it. It is also "
            "withdrawn if more of them contradict it, and the favoured arm is not first in "
            "significantly more of all blocks."
        )
    return notes


def _sentence(target: Target, comparison: TargetComparison, name: ArmNames) -> str:
    arm, base = name(comparison.arm), f"{name(comparison.baseline)}{name.where}"
    goal = f"val_accuracy {number(target.accuracy)}"
    blocks = comparison.both + comparison.only_arm + comparison.only_baseline + comparison.neither
    rest = _others(comparison, name)
    if not comparison.both:
        return f"there is no block in which both {arm} and {base} reach {goal}{rest}"
    where = f"over {_where(comparison, blocks)} both reach it{_noise(comparison)}"
    shown = comparison.corrected or comparison.ratio
    if comparison.verdict == "same":
        text = f"{arm} and {base} reach {goal} in the same time within {share(comparison.margin)} "
        return f"{text}({ratio_interval(shown)}), {where}{rest}"
    if comparison.verdict != "inconclusive":
        return f"{arm} reaches {goal} {ratio(shown)} as fast as {base}, {where}{rest}"
    text = f"inconclusive: whether {arm} reaches {goal} sooner or later than {base}"
    estimate = f": {ratio(shown)} as fast" if shown else ""
    return f"{text}{estimate}, {where}{rest}; {comparison.reason}"


def _where(comparison: TargetComparison, blocks: int) -> str:
    if comparison.both == blocks:
        return f"{count(blocks, 'block')}, in {'each of ' if blocks > 1 else ''}which"
    return f"the {comparison.both} of {count(blocks, 'block')} in which"


def _noise(comparison: TargetComparison) -> str:
    """Write whether disturbed blocks are among those compared."""
    disturbed = len(comparison.disturbed_blocks)
    if not disturbed:
        return ""
    if comparison.quiet_only:
        return ", quiet rounds only"
    which = "all" if disturbed == len(comparison.pairs) else str(disturbed)
    return f", {which} of them disturbed"


def _others(comparison: TargetComparison, name: ArmNames) -> str:
    """Write the blocks that are not compared: ` (only tensorflow/cudnn in 2, neither in 1)`."""
    counts = [
        f"{who} in {blocks}"
        for who, blocks in (
            (f"only {name(comparison.arm)}", comparison.only_arm),
            (f"only {name(comparison.baseline)}", comparison.only_baseline),
            ("neither", comparison.neither),
        )
        if blocks
    ]
    return f" ({', '.join(counts)})" if counts else ""


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
        Column(f"to {number(target.accuracy)}", lambda row: name(row.arm)),
        Column("reached", _reached, numeric=True),
        Column("time", lambda row: row.time_s, "s", _cell),
        Column("energy", lambda row: row.energy_j, "J", _cell, optional=True),
        Column("cost", lambda row: row.cost_usd, "USD", _cell, optional=True),
        Column("energy of", lambda row: (scoped and row.energy_scope) or None, optional=True),
        Column("ratio (95 %)", compared(lambda c: c.ratio), show=ratio, optional=True),
        Column("corrected", compared(lambda c: c.corrected), show=ratio_interval, optional=True),
        Column("both", compared(lambda c: c.both), optional=True),
        Column("others", compared(_other_blocks), optional=True),
        Column("needs", compared(lambda c: c.verdict), optional=True),
    ]
    return make_table(columns, target.arms)


def _other_blocks(comparison: TargetComparison) -> int:
    return comparison.only_arm + comparison.only_baseline + comparison.neither


def _cell(reached: ExpenseToTarget) -> str:
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is not None and median is not None and high is not None:
        return quartiles(Spread(reached.trials, median, low, high))
    ends = [_NEVER if end is None else f"{end:.3g}" for end in (low, median, high)]
    return _NEVER if low is None else f"{ends[1]} ({ends[0]}–{ends[2]})"
