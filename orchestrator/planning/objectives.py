"""Objectives: a block's result for the sampler, and how many blocks may be without one.

A block has a result once every arm that an objective reads has run it. So few open blocks teach the
sampler most, but each hardware class needs enough of them to keep its devices at work. If an
objective reads slow arms, only a sweep with all blocks open keeps faster hardware busy.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.core.arms import Arm
from orchestrator.core.selectors import names_arm
from orchestrator.core.trial import Outcome
from orchestrator.planning.lanes import LaneGroup
from orchestrator.planning.plan import Plan
from orchestrator.spec import Objective, SweepSpec

_OVER: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "min": min,
    "max": max,
}


def arms_read(objective: Objective, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms whose outcomes an objective reads: those it names, or all of them.

    Arms that are only timed are read where no other one is meant, those with an amount of
    work of their own where they are named or there are no others: they learned something else.
    """
    averaged = objective.over in _OVER
    named = [arm for arm in arms if averaged or names_arm(objective.over, arm)]
    whole = [arm for arm in named if arm.measure == "full"] or named
    if not averaged:
        return tuple(whole)
    return tuple(arm for arm in whole if not arm.work) or tuple(whole)


def arms_that_speak(objectives: Iterable[Objective], arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms that a block's result waits for; all of them if no objective reads one."""
    read = {arm for objective in objectives for arm in arms_read(objective, arms)}
    return tuple(arm for arm in arms if arm in read) or tuple(arms)


def block_value(
    metric: str, objective: Objective, outcomes: Mapping[Arm, Sequence[Outcome]]
) -> float | None:
    """Return an objective over one block: repeats are averaged, then arms are aggregated.

    A block in which an arm failed is a failure, never the average of its survivors: None if any
    trial that the objective reads is not complete or lacks the metric.
    """
    per_arm: list[float] = []
    for arm in arms_read(objective, list(outcomes)):
        values = [
            outcome.metrics[metric]
            for outcome in outcomes[arm]
            if outcome.status == "complete" and metric in outcome.metrics
        ]
        if not values or len(values) < len(outcomes[arm]):
            return None
        per_arm.append(statistics.fmean(values))
    return _OVER.get(objective.over, statistics.fmean)(per_arm) if per_arm else None


def open_limit(spec: SweepSpec, plan: Plan, groups: Sequence[LaneGroup]) -> int | None:
    """Return how many blocks may be open: the spec's choice, or as few as keep devices at work.

    A block gives a lane a round for each repeat and way to measure, and a round takes one slot. So
    each lane that the objectives read may have the blocks that fill its slots, and one more:
    without a next round, Tune gives up a warm worker. None, for no limit, if the sampler does not
    learn.
    """
    if spec.search.open_blocks is not None:
        return spec.search.open_blocks
    if not spec.search.sampler.learns:
        return None
    read = arms_that_speak(spec.search.objectives.values(), plan.arms)
    return max(
        (
            sum(math.ceil(lane.slots / rounds) + 1 for lane in group.lanes)
            for group in groups
            if (rounds := plan.repeats * len({arm.measure for arm in read if arm in group.arms}))
        ),
        default=2,
    )
