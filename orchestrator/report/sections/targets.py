"""The section and the sentences on the time, energy and cost to reach a target accuracy."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.analysis.comparisons.target_comparison import TargetComparison
from orchestrator.analysis.comparisons.target_trials import Expense, ExpenseToTarget
from orchestrator.analysis.comparisons.targets import Target, TargetArm
from orchestrator.analysis.statistics.estimates import Spread
from orchestrator.analysis.statistics.formatting import (
    ABSENT,
    count,
    joined,
    number,
    quartiles,
    ratio,
    ratio_interval,
    share,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Row, Section, Table
from orchestrator.report.wording.sentences import ArmNames

_TITLES: Mapping[Expense, str] = {
    "time_s": "time (s)",
    "energy_j": "energy (J)",
    "cost_usd": "cost (USD)",
}
_NEEDS: Mapping[Expense, str] = {"time_s": "time", "energy_j": "energy", "cost_usd": "money"}
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
        if comparison.expense == "time_s"
    ]


def attainment(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List what each arm needs to reach the targets, and compare it with its baseline."""
    if not summary.targets:
        return None
    tables = [
        table
        for target in summary.targets
        for table in (_arms(target, name), _comparisons(target, name))
        if table.rows
    ]
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
    spent = {expense for target in recorded for arm in target.arms for expense in _spent(arm)}
    if spent - {"time_s"}:
        notes.append(
            "Energy and cost to the target are estimates: those of the timed epochs (see Energy "
            "and cost) in proportion to the time."
        )
    if any(target.comparisons for target in recorded):
        notes.append(
            "The ratio is the expense of the baseline divided by that of the arm, over the blocks "
            "in which all repeats of both reach the target. A block in which only one of them "
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
    often = _more_often(comparison, name)
    end = f"{rest}{often}"
    if not comparison.both:
        return f"there is no block in which both {arm} and {base} reach {goal}{end}"
    where = f"over {_where(comparison, blocks)} both reach it{_noise(comparison)}"
    shown = comparison.corrected or comparison.ratio
    if comparison.verdict == "same":
        text = f"{arm} and {base} reach {goal} in the same time within {share(comparison.margin)} "
        return f"{text}({ratio_interval(shown)}), {where}{end}"
    if comparison.verdict != "inconclusive":
        return f"{arm} reaches {goal} {ratio(shown)} as fast as {base}, {where}{end}"
    text = f"inconclusive: whether {arm} reaches {goal} sooner or later than {base}"
    estimate = f": {ratio(shown)} as fast" if shown else ""
    return f"{text}{estimate}, {where}{rest}; {comparison.reason}{often}"


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


def _more_often(comparison: TargetComparison, name: ArmNames) -> str:
    who = comparison.more_often
    return f"; {name(who)} reaches it significantly more often" if who else ""


def _reached(arm: TargetArm) -> str:
    """Write `20 of 40`, and how many of the others diverged."""
    text = f"{arm.time_s.reached} of {arm.time_s.trials}"
    return f"{text}, {arm.diverged} diverged" if arm.diverged else text


def _arms(target: Target, name: ArmNames) -> Table:
    spent = [expense for expense in _TITLES if any(expense in _spent(arm) for arm in target.arms)]
    scoped = len({arm.energy_scope for arm in target.arms if arm.energy_j}) > 1
    headers = (
        f"to {number(target.accuracy)}",
        "reached",
        *(_TITLES[expense] for expense in spent),
        *(["energy of"] if scoped else []),
    )
    rows = tuple(
        (
            name(arm.arm),
            _reached(arm),
            *(_cell(_spent(arm).get(expense)) for expense in spent),
            *([arm.energy_scope or ABSENT] if scoped else []),
        )
        for arm in target.arms
    )
    return Table(headers, rows, frozenset(range(1, 2 + len(spent))))


def _comparisons(target: Target, name: ArmNames) -> Table:
    headers: Row = ("arm", "of", "ratio (95 %)", "corrected", "both", "others", "needs")
    rows = tuple(
        (
            name(comparison.arm),
            _NEEDS[comparison.expense],
            ratio(comparison.ratio),
            ratio_interval(comparison.corrected),
            str(comparison.both),
            str(comparison.only_arm + comparison.only_baseline + comparison.neither),
            comparison.verdict,
        )
        for comparison in target.comparisons
    )
    return Table(headers, rows, frozenset(range(2, 6)))


def _spent(arm: TargetArm) -> dict[Expense, ExpenseToTarget]:
    by_expense: dict[Expense, ExpenseToTarget | None] = {
        "time_s": arm.time_s,
        "energy_j": arm.energy_j,
        "cost_usd": arm.cost_usd,
    }
    return {expense: reached for expense, reached in by_expense.items() if reached}


def _cell(reached: ExpenseToTarget | None) -> str:
    if reached is None:
        return ABSENT
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is not None and median is not None and high is not None:
        return quartiles(Spread(reached.trials, median, low, high))
    ends = [_NEVER if end is None else f"{end:.3g}" for end in (low, median, high)]
    return _NEVER if low is None else f"{ends[1]} ({ends[0]}–{ends[2]})"
