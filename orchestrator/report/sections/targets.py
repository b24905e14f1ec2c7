"""The section on target accuracies: the time, energy and cost that each arm needs to reach them."""

from collections.abc import Iterator

from orchestrator.analysis.comparisons.targets import ExpenseToTarget, Target, TargetArm
from orchestrator.analysis.statistics.estimates import Spread
from orchestrator.analysis.statistics.formatting import number, plain, quartiles
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import joined
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.wording import ArmNames, absent_arms

_NEVER = "never"
"""The text of a quartile among the trials that did not reach the target."""


def targets_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List what each arm needs to reach the targets."""
    if not summary.targets:
        return None
    without_arms = tuple(
        f"No figures for val_accuracy {number(target.accuracy)}: no complete trial recorded "
        "val_accuracy by epoch."
        for target in summary.targets
        if not target.arms
    )
    listed = {row.arm for target in summary.targets for row in target.arms}
    absent = absent_arms(summary, name, listed, "val_accuracy") if listed else ()
    return Section(
        "To val_accuracy " + joined([number(target.accuracy) for target in summary.targets]),
        tables=tuple(_table(target, name) for target in summary.targets if target.arms),
        paragraphs=(*without_arms, *absent),
        explanations=tuple(_explanations(summary)),
    )


def _explanations(summary: ReportSummary) -> Iterator[str]:
    arms = [arm for target in summary.targets for arm in target.arms]
    if arms:
        yield (
            "A trial reaches a target at the end of the first epoch with that val_accuracy; only "
            "training time counts. Medians and quartiles rank trials that never reach it after all "
            "others. A quartile that falls among them is shown as never. Arms are not judged by "
            "these figures."
        )
    if any(arm.energy_j or arm.cost_usd for arm in arms):
        yield (
            "Energy and cost to the target are estimates: energy and cost of the "
            "timed epochs (see Energy and cost) in proportion to the time."
        )


def _reached(arm: TargetArm) -> str:
    """Write `20 of 40`, and how many of the others diverged."""
    text = f"{arm.time_s.reached} of {arm.time_s.trials}"
    return f"{text}, {arm.diverged} diverged" if arm.diverged else text


def _table(target: Target, name: ArmNames) -> Table:
    has_scopes = len({arm.energy_scope for arm in target.arms if arm.energy_j}) > 1
    columns: list[Column[TargetArm]] = [
        Column(f"to {number(target.accuracy)}", lambda row: name(row.arm)),
        Column("reached", _reached, numeric=True),
        Column("time (s)", lambda row: row.time_s, show=_cell),
        Column("energy (J)", lambda row: row.energy_j, show=_cell, optional=True),
        Column("cost (USD)", lambda row: row.cost_usd, show=_cell, optional=True),
        Column("energy of", lambda row: (has_scopes and row.energy_scope) or None, optional=True),
    ]
    return make_table(columns, target.arms)


def _cell(reached: ExpenseToTarget) -> str:
    """Write median and quartiles, `never` for those that no trial reached."""
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is not None and median is not None and high is not None:
        return quartiles(Spread(reached.trials, median, low, high))
    if low is None:
        return _NEVER
    median_text, high_text = (_NEVER if end is None else plain(end) for end in (median, high))
    return f"{median_text} ({plain(low)}–{high_text})"
