"""Time, energy and cost to a target accuracy, by arm and by comparison with the baseline.

All trainings that ended count; those that diverged never reached the target. Compared are whole
trainings of equal mathematics and work, and energies of one scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.analysis.comparisons.divergence import diverged, with_diverged
from orchestrator.analysis.comparisons.speed import difference_of
from orchestrator.analysis.comparisons.target_comparison import (
    TargetComparison,
    TargetTrials,
    compare_reached,
)
from orchestrator.analysis.comparisons.target_trials import (
    EXPENSES,
    ExpenseToTarget,
    Goal,
    TargetTrial,
    expense_to_target,
    scopes_of,
)
from orchestrator.analysis.pairing.baseline import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord


@dataclass(frozen=True, slots=True)
class TargetArm:
    """The expenses of an arm until the target; `energy_scope` is the scope of its energy.

    An expense is None unless every trial that reached the target recorded it. `diverged` counts the
    trials that ended in numbers that are not finite, and so never reached it.
    """

    arm: Arm
    time_s: ExpenseToTarget
    energy_j: ExpenseToTarget | None
    energy_scope: str
    cost_usd: ExpenseToTarget | None
    diverged: int


@dataclass(frozen=True, slots=True)
class Target:
    """The expenses until one val_accuracy, and their comparisons."""

    accuracy: float
    arms: tuple[TargetArm, ...]
    comparisons: tuple[TargetComparison, ...]


def reach(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline | None,
    asked: Iterable[float] = (),
) -> tuple[Target, ...]:
    """Return the expenses until the spec's `target_accuracy` and the requested accuracies.

    Without any data the spec's target is omitted, and a requested one has no arms.
    """
    own = record.settings.get("target_accuracy")
    goals = {float(own): Goal(float(own), reported=True)} if own is not None else {}
    wanted = list(asked)
    for accuracy in wanted:
        goals.setdefault(accuracy, Goal(accuracy))
    arms = [arm for arm in record.arms if arm.measure == "full"]
    ended = with_diverged(record, matched)
    targets = (_target(record, ended, baseline, arms, goal) for goal in goals.values())
    return tuple(target for target in targets if target.arms or target.accuracy in wanted)


def _target(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline | None,
    arms: Sequence[Arm],
    goal: Goal,
) -> Target:
    of_rounds: dict[Arm, TargetTrials] = {
        arm: {r: [TargetTrial(t, goal.seconds(t)) for t in trials] for r, trials in rounds.items()}
        for arm, rounds in matched.trials.items()
        if arm in arms
    }
    every = {arm: of_rounds.get(arm) or _unmatched(record, arm, goal) for arm in arms}
    if not any(map(_has_times, every.values())):
        return Target(goal.accuracy, (), ())
    rows = [_arm(arm, every[arm].values()) for arm in arms]
    bases = [(arm, baseline.of.get(arm) if baseline else None) for arm in arms]
    sides = [
        (arm, base)
        for arm, base in bases
        if base in arms and base is not None and base != arm
        and not difference_of(arm, base) and arm.work == base.work
    ]  # fmt: skip
    compared = [
        comparison
        for expense in EXPENSES
        for comparison in compare_reached(record.criteria, matched, sides, expense, of_rounds)
    ]
    return Target(goal.accuracy, tuple(row for row in rows if row), tuple(compared))


def _unmatched(record: SweepRecord, arm: Arm, goal: Goal) -> TargetTrials:
    """Return the trials of an arm without a complete round."""
    rounds: dict[Round, list[TargetTrial]] = {}
    for trial in record.trials:
        if trial.arm == arm and (trial.status == "complete" or diverged(trial)):
            of_round = rounds.setdefault((trial.block, trial.repeat), [])
            of_round.append(TargetTrial(trial, goal.seconds(trial)))
    return rounds


def _has_times(rounds: TargetTrials) -> bool:
    """Check that a complete training has a time; one that diverged always has."""
    return any(
        one.seconds is not None and not diverged(one.trial)
        for trials in rounds.values()
        for one in trials
    )


def _arm(arm: Arm, rounds: Iterable[Sequence[TargetTrial]]) -> TargetArm | None:
    """Return the expenses of an arm, None without any data; only the time if all diverged."""
    trials = [one for of_round in rounds for one in of_round if one.seconds is not None]
    time_s, energy_j, cost_usd = (
        expense_to_target([one.expense(expense) for one in trials]) for expense in EXPENSES
    )
    if time_s is None:
        return None
    scopes = sorted(scopes_of(trials) - {""})
    scope = scopes[0] if len(scopes) == 1 else ""
    broken = sum(diverged(one.trial) for one in trials)
    spent = cost_usd if broken < len(trials) else None
    return TargetArm(arm, time_s, energy_j if scope else None, scope, spent, broken)
