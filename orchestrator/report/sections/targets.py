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
    joined,
    number,
    quartiles,
    ratio,
    ratio_interval,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.prose import paragraphs, sentence
from orchestrator.report.wording import ArmNames

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
        goal=f"val_accuracy {number(target.accuracy)}",
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
    return make_table(columns, target.arms, divisible=True)


def _other_blocks(comparison: TargetComparison) -> int:
    return comparison.only_arm + comparison.only_baseline + comparison.neither


def _cell(reached: ExpenseToTarget) -> str:
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is not None and median is not None and high is not None:
        return quartiles(Spread(reached.trials, median, low, high))
    ends = [_NEVER if end is None else f"{end:.3g}" for end in (low, median, high)]
    return _NEVER if low is None else f"{ends[1]} ({ends[0]}–{ends[2]})"
