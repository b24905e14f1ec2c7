"""Time, energy and cost to a target accuracy: each arm, and each arm against its baseline.

Two arms are compared over the blocks in which all repeats of both reach the target; the other
blocks are counted by who reached it, not dropped. What is compared are whole trainings of equal
mathematics and work, and energies of one scope.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.aims import Aims
from orchestrator.report.baseline import Baseline
from orchestrator.report.blocks import Matched, Round
from orchestrator.report.comparison import difference_of
from orchestrator.report.judgement import Finding, Judgement, judge
from orchestrator.report.pairs import Pair, Timed, by_round, geometric, timed_pairs
from orchestrator.report.reaching import (
    EXPENSES,
    Attempt,
    Expense,
    Goal,
    Reached,
    reached,
    reached_in,
)
from orchestrator.report.records import SweepRecord
from orchestrator.report.sequential import confidence_for
from orchestrator.report.statistics import Estimate, exponential, geometric_mean
from orchestrator.selector import measure_of, work_of
from orchestrator.trial import Arm

TargetVerdict = Literal["same", "less", "more", "cannot tell"]

Attempts = Mapping[Round, Sequence[Attempt]]
"""An arm's attempts at a goal, by round."""

_VERDICTS: Mapping[Finding, TargetVerdict] = {"same": "same", "more": "less", "less": "more"}


@dataclass(frozen=True, slots=True)
class TargetArm:
    """What it takes an arm to reach the target; `energy_scope` says what its energy is that of.

    An expense is None where it is not known of every trial that reached the target.
    """

    arm: Arm
    time_s: Reached
    energy_j: Reached | None
    energy_scope: str
    cost_usd: Reached | None


@dataclass(frozen=True, slots=True)
class TargetComparison:
    """An arm against its baseline, by what it takes to reach the target.

    `ratio` is the geometric mean over `pairs` of the baseline's expense over the arm's, with its
    plain 95 % interval: above 1 the arm needs `less`. The verdict is read from `corrected`, made as
    a speed-up's, by the same `margin`, with the other comparisons of this target and expense.
    `both`, `only_arm`, `only_baseline` and `neither` count complete blocks by who reached it.
    """

    arm: Arm
    baseline: Arm
    expense: Expense
    pairs: tuple[Pair, ...]
    ratio: Estimate | None
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    verdict: TargetVerdict
    margin: float
    both: int
    only_arm: int
    only_baseline: int
    neither: int
    quiet_only: bool
    disturbed_blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """What it takes to reach one val_accuracy."""

    accuracy: float
    arms: tuple[TargetArm, ...]
    comparisons: tuple[TargetComparison, ...]


def reach(
    record: SweepRecord,
    matched: Matched,
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
    arms = [arm for arm in record.arms if measure_of(arm) == "full"]
    found = (_target(record, matched, baseline, arms, goal) for goal in goals.values())
    return tuple(target for target in found if target.arms or target.accuracy in wanted)


def _target(
    record: SweepRecord,
    matched: Matched,
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
    rows = [_arm(arm, (attempts.get(arm) or alone[arm]).values()) for arm in arms]
    bases = [(arm, baseline.of.get(arm) if baseline else None) for arm in arms]
    sides = [
        (arm, base)
        for arm, base in bases
        if base in arms and base is not None and base != arm
        and not difference_of(arm, base) and work_of(arm) == work_of(base)
    ]  # fmt: skip
    compared = [
        comparison
        for expense in EXPENSES
        for comparison in _compare(record, matched, sides, expense, attempts)
    ]
    return Target(goal.accuracy, tuple(row for row in rows if row), tuple(compared))


def _alone(record: SweepRecord, arm: Arm, goal: Goal) -> Attempts:
    """The complete trials of an arm that stands in no complete round."""
    found: dict[Round, list[Attempt]] = {}
    for trial in record.trials:
        if trial.arm == arm and trial.status == "complete":
            of_round = found.setdefault((trial.block, trial.repeat), [])
            of_round.append(Attempt(trial, goal.seconds(trial)))
    return found


def _arm(arm: Arm, rounds: Iterable[Sequence[Attempt]]) -> TargetArm | None:
    """None for an arm of whose trials nothing is known."""
    known = [each for attempts in rounds for each in attempts if each.seconds is not None]
    time_s, energy_j, cost_usd = (
        reached([each.expense(expense) for each in known]) for expense in EXPENSES
    )
    if time_s is None:
        return None
    scopes = sorted(_scopes(known) - {""})
    one = scopes[0] if len(scopes) == 1 else ""
    return TargetArm(arm, time_s, energy_j if one else None, one, cost_usd)


def _compare(
    record: SweepRecord,
    matched: Matched,
    sides: Sequence[tuple[Arm, Arm]],
    expense: Expense,
    attempts: Mapping[Arm, Attempts],
) -> list[TargetComparison]:
    """The comparisons by one expense, judged together; none where no pair of blocks has it."""
    fair = [pair for pair in sides if expense != "energy_j" or _one_scope(attempts, pair)]
    told = {arm: reached_in(rounds) for arm, rounds in attempts.items()}
    reach = [_Reach.of(told.get(arm, {}), told.get(base, {})) for arm, base in fair]
    values = {
        arm: by_round(rounds, lambda each: each.reached(expense), geometric)
        for arm, rounds in attempts.items()
    }
    found = [
        timed_pairs(values, matched.disturbed, *pair, told.are_left_out)
        for pair, told in zip(fair, reach, strict=True)
    ]
    if expense != "time_s" and not any(each.pairs for each in found):
        return []
    judged = judge(
        [[math.log(pair.baseline / pair.arm) for pair in each.pairs] for each in found],
        math.log1p(record.aims.margins.speed),
        1 - confidence_for(record.aims.auto_blocks),
    )
    return [
        _comparison(pair, expense, told, each, judgement, record.aims)
        for pair, told, each, judgement in zip(fair, reach, found, judged, strict=True)
    ]


def _comparison(
    sides: tuple[Arm, Arm],
    expense: Expense,
    reach: _Reach,
    found: Timed,
    judged: Judgement,
    aims: Aims,
) -> TargetComparison:
    ratios = [pair.baseline / pair.arm for pair in found.pairs]
    return TargetComparison(
        *sides,
        expense=expense,
        pairs=found.pairs,
        ratio=geometric_mean(ratios, confidence_for(aims.auto_blocks)),
        corrected=exponential(judged.corrected) if judged.corrected else None,
        confidence=judged.confidence,
        p_value=judged.p_value,
        verdict=_VERDICTS.get(judged.finding, "cannot tell"),
        margin=aims.margins.speed,
        both=len(reach.both),
        only_arm=len(reach.only_arm),
        only_baseline=len(reach.only_baseline),
        neither=len(reach.neither),
        quiet_only=found.quiet_only,
        disturbed_blocks=tuple(sorted(found.disturbed)),
    )


@dataclass(frozen=True, slots=True)
class _Reach:
    """The blocks by who reached the goal in all of their repeats."""

    both: frozenset[int]
    only_arm: frozenset[int]
    only_baseline: frozenset[int]
    neither: frozenset[int]

    @classmethod
    def of(cls, ours: Mapping[int, bool], theirs: Mapping[int, bool]) -> _Reach:
        known = ours.keys() & theirs.keys()
        return cls(
            *(
                frozenset(block for block in known if (ours[block], theirs[block]) == who)
                for who in ((True, True), (True, False), (False, True), (False, False))
            )
        )

    def are_left_out(self, which: Round) -> bool:
        """Whether a round's block is known, and not reached by both."""
        return which[0] in self.only_arm | self.only_baseline | self.neither


def _one_scope(attempts: Mapping[Arm, Attempts], sides: tuple[Arm, Arm]) -> bool:
    """Whether the energies of both sides are those of the same things."""
    of_both = [found for side in sides for found in attempts.get(side, {}).values()]
    scopes = _scopes(each for found in of_both for each in found)
    return len(scopes) == 1 and scopes != {""}


def _scopes(attempts: Iterable[Attempt]) -> set[str]:
    return {each.trial.notes.get("energy_scope", "") for each in attempts}
