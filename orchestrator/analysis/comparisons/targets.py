"""Time, energy and cost to a target accuracy: each arm, and each arm against its baseline.

Every training counts that ran to its end, and every one that diverged: as one that never reached
it. What is compared are whole trainings of equal mathematics and work, and energies of one scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.analysis.comparisons.divergence import diverged, with_diverged
from orchestrator.analysis.comparisons.speed import difference_of
from orchestrator.analysis.comparisons.target_attempts import (
    EXPENSES,
    Attempt,
    Goal,
    Reached,
    reached,
    scopes_of,
)
from orchestrator.analysis.comparisons.target_comparison import (
    Attempts,
    TargetComparison,
    compare_reached,
)
from orchestrator.analysis.pairing.baseline import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord


@dataclass(frozen=True, slots=True)
class TargetArm:
    """What it takes an arm to reach the target; `energy_scope` says what its energy is that of.

    An expense is None where it is not known of every trial that reached the target. `diverged`
    counts the trials that never did because they ended in numbers that are not finite.
    """

    arm: Arm
    time_s: Reached
    energy_j: Reached | None
    energy_scope: str
    cost_usd: Reached | None
    diverged: int


@dataclass(frozen=True, slots=True)
class Target:
    """What it takes to reach one val_accuracy."""

    accuracy: float
    arms: tuple[TargetArm, ...]
    comparisons: tuple[TargetComparison, ...]


def reach(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline | None,
    asked: Iterable[float] = (),
) -> tuple[Target, ...]:
    """What it takes to reach the spec's `target_accuracy`, and whatever other accuracy is asked.

    The spec's is left out where nothing is known of it; one that was asked for has no arms then.
    """
    own = record.settings.get("target_accuracy")
    goals = {float(own): Goal(float(own), reported=True)} if own is not None else {}
    wanted = list(asked)
    for accuracy in wanted:
        goals.setdefault(accuracy, Goal(accuracy))
    arms = [arm for arm in record.arms if arm.measure == "full"]
    ended = with_diverged(record, matched)
    found = (_target(record, ended, baseline, arms, goal) for goal in goals.values())
    return tuple(target for target in found if target.arms or target.accuracy in wanted)


def _target(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline | None,
    arms: Sequence[Arm],
    goal: Goal,
) -> Target:
    attempts: dict[Arm, Attempts] = {
        arm: {r: [Attempt(t, goal.seconds(t)) for t in found] for r, found in rounds.items()}
        for arm, rounds in matched.trials.items()
        if arm in arms
    }
    alone = {arm: _alone(record, arm, goal) for arm in arms if not attempts.get(arm)}
    every = {arm: attempts.get(arm) or alone[arm] for arm in arms}
    if not any(map(_is_told, every.values())):
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
        for comparison in compare_reached(record.criteria, matched, sides, expense, attempts)
    ]
    return Target(goal.accuracy, tuple(row for row in rows if row), tuple(compared))


def _alone(record: SweepRecord, arm: Arm, goal: Goal) -> Attempts:
    """The trials of an arm that stands in no complete round."""
    found: dict[Round, list[Attempt]] = {}
    for trial in record.trials:
        if trial.arm == arm and (trial.status == "complete" or diverged(trial)):
            of_round = found.setdefault((trial.block, trial.repeat), [])
            of_round.append(Attempt(trial, goal.seconds(trial)))
    return found


def _is_told(attempts: Attempts) -> bool:
    """Whether it is known of a complete training; of one that diverged it always is."""
    return any(
        each.seconds is not None and not diverged(each.trial)
        for found in attempts.values()
        for each in found
    )


def _arm(arm: Arm, rounds: Iterable[Sequence[Attempt]]) -> TargetArm | None:
    """None for an arm of whose trials nothing is known; no expense but time where all diverged."""
    known = [each for attempts in rounds for each in attempts if each.seconds is not None]
    time_s, energy_j, cost_usd = (
        reached([each.expense(expense) for each in known]) for expense in EXPENSES
    )
    if time_s is None:
        return None
    scopes = sorted(scopes_of(known) - {""})
    one = scopes[0] if len(scopes) == 1 else ""
    broken = sum(diverged(each.trial) for each in known)
    spent = cost_usd if broken < len(known) else None
    return TargetArm(arm, time_s, energy_j if one else None, one, spent, broken)
