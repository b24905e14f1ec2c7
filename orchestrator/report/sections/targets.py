"""The section and the sentences that tell what it takes to reach a target accuracy."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.analysis.comparisons.target_attempts import Expense, Reached
from orchestrator.analysis.comparisons.target_comparison import TargetComparison
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
"""Where a quartile lies among the trials that did not reach the target."""
_KINDS = {"less": "faster", "more": "slower"}
"""As which kind of verdict each is shown."""


def target_verdicts(summary: ReportSummary, name: ArmNames) -> list[tuple[str, str]]:
    """For each comparison of time to a target a kind and a sentence."""
    return [
        (_KINDS.get(each.verdict, each.verdict), _sentence(target, each, name))
        for target in summary.targets
        for each in target.comparisons
        if each.expense == "time_s"
    ]


def attainment(summary: ReportSummary, name: ArmNames) -> Section | None:
    """What it takes each arm to reach the targets, and each against its baseline."""
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
        f"Of val_accuracy {number(target.accuracy)} nothing can be told: no complete trial has its "
        "val_accuracy by epoch."
        for target in summary.targets
        if not target.arms
    ]
    known = [target for target in summary.targets if target.arms]
    if known:
        notes.append(
            "A trial reaches a target at the end of the first epoch with that val_accuracy; its "
            "time is that of training alone. Median (quartiles) count trials that never reach it "
            "as longer than any other: never stands for a quartile that lies among those."
        )
    spent = {expense for target in known for arm in target.arms for expense in _spent(arm)}
    if spent - {"time_s"}:
        notes.append(
            "Energy and cost up to there are estimates: those of the timed epochs (see Energy and "
            "cost), by the share of their time."
        )
    if any(target.comparisons for target in known):
        notes.append(
            "The ratio is the expense of the baseline over the arm's, over the blocks in which all "
            "repeats of both reach the target. A block that only one of the two reaches counts for "
            "that one: a verdict on the others does not stand where significantly more of these "
            "speak against it, or where more of them do and the arm that it favours is not first "
            "in significantly more of all blocks."
        )
    return notes


def _sentence(target: Target, found: TargetComparison, name: ArmNames) -> str:
    arm, base = name(found.arm), f"{name(found.baseline)}{name.where}"
    goal = f"val_accuracy {number(target.accuracy)}"
    blocks = found.both + found.only_arm + found.only_baseline + found.neither
    rest = _others(found, name)
    often = _more_often(found, name)
    end = f"{rest}{often}"
    if not found.both:
        return f"there is no block in which both {arm} and {base} reach {goal}{end}"
    where = f"over {_where(found, blocks)} both reach it{_noise(found)}"
    shown = found.corrected or found.ratio
    if found.verdict == "same":
        told = f"{arm} and {base} reach {goal} in the same time within {share(found.margin)} "
        return f"{told}({ratio_interval(shown)}), {where}{end}"
    if found.verdict != "inconclusive":
        return f"{arm} reaches {goal} {ratio(shown)} as fast as {base}, {where}{end}"
    told = f"cannot tell whether {arm} reaches {goal} sooner or later than {base}"
    seen = f": {ratio(shown)} as fast" if shown else ""
    return f"{told}{seen}, {where}{rest}; {found.reason}{often}"


def _where(found: TargetComparison, blocks: int) -> str:
    if found.both == blocks:
        return f"{count(blocks, 'block')}, in {'each of ' if blocks > 1 else ''}which"
    return f"the {found.both} of {count(blocks, 'block')} in which"


def _noise(found: TargetComparison) -> str:
    """What is unusual about the blocks that are compared, as of speeds."""
    disturbed = len(found.disturbed_blocks)
    if not disturbed:
        return ""
    if found.quiet_only:
        return ", quiet rounds only"
    which = "all" if disturbed == len(found.pairs) else str(disturbed)
    return f", {which} of them disturbed"


def _others(found: TargetComparison, name: ArmNames) -> str:
    """` (only tensorflow/cudnn in 2, neither in 1)`: the blocks that are not compared."""
    told = [
        f"{who} in {blocks}"
        for who, blocks in (
            (f"only {name(found.arm)}", found.only_arm),
            (f"only {name(found.baseline)}", found.only_baseline),
            ("neither", found.neither),
        )
        if blocks
    ]
    return f" ({', '.join(told)})" if told else ""


def _more_often(found: TargetComparison, name: ArmNames) -> str:
    who = found.more_often
    return f"; {name(who)} reaches it significantly more often" if who else ""


def _reached(arm: TargetArm) -> str:
    """`20 of 40`, and how many of the others diverged."""
    told = f"{arm.time_s.reached} of {arm.time_s.trials}"
    return f"{told}, {arm.diverged} diverged" if arm.diverged else told


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
            name(each.arm),
            _NEEDS[each.expense],
            ratio(each.ratio),
            ratio_interval(each.corrected),
            str(each.both),
            str(each.only_arm + each.only_baseline + each.neither),
            each.verdict,
        )
        for each in target.comparisons
    )
    return Table(headers, rows, frozenset(range(2, 6)))


def _spent(arm: TargetArm) -> dict[Expense, Reached]:
    found: dict[Expense, Reached | None] = {
        "time_s": arm.time_s,
        "energy_j": arm.energy_j,
        "cost_usd": arm.cost_usd,
    }
    return {expense: reached for expense, reached in found.items() if reached}


def _cell(found: Reached | None) -> str:
    if found is None:
        return ABSENT
    low, median, high = found.lower_quartile, found.median, found.upper_quartile
    if low is not None and median is not None and high is not None:
        return quartiles(Spread(found.trials, median, low, high))
    told = [_NEVER if end is None else f"{end:.3g}" for end in (low, median, high)]
    return _NEVER if low is None else f"{told[1]} ({told[0]}–{told[2]})"
