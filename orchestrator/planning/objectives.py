"""Objectives: a block's result for the sampler, and how many blocks may be without one.

A block has a result once every arm that an objective reads has run it. So few open blocks teach the
sampler most, but each hardware class needs enough of them to keep its devices at work. If an
objective reads slow arms, only a sweep with all blocks open keeps faster hardware busy.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.core.arms import Arm
from orchestrator.core.names import names_arm
from orchestrator.core.trial import Outcome
from orchestrator.planning.lanes import LaneGroup
from orchestrator.planning.plan import Plan
from orchestrator.spec import Objective, SweepSpec

LEARNING = ("tpe", "nsga2", "gp")
"""Samplers that learn from the results of blocks."""

_NOTICEABLE = 0.05
"""A share of idle time that a plan reports."""

_OVER: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "min": min,
    "max": max,
}


def arms_read(objective: Objective, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms whose outcomes an objective reads: those it names, or all of them.

    Arms that are only timed in slices are read where no other one is meant, those with an amount of
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

    Each lane that the objectives read has the blocks that keep its devices at work, and the next
    one: without it Tune gives up a warm worker. None, for no limit, if the sampler does not learn.
    """
    if spec.search.open_blocks is not None:
        return spec.search.open_blocks
    if spec.search.sampler not in LEARNING:
        return None
    read = arms_that_speak(spec.search.objectives.values(), plan.arms)
    return max(
        (
            sum(math.ceil(lane.slots / trials) + 1 for lane in group.lanes)
            for group in groups
            if (trials := plan.repeats * sum(arm.hardware in group.hardware for arm in read))
        ),
        default=2,
    )


def idle_shares(
    spec: SweepSpec, plan: Plan, groups: Sequence[LaneGroup], trial_s: Mapping[str, float]
) -> dict[str, float]:
    """Return the share of its time, up to its last trial, that each class waits for results.

    Keys are the names of a group's hardware, joined. `trial_s` has the seconds of a trial by the
    text of its arm, for each arm of the plan.
    """
    limit = open_limit(spec, plan, groups)
    held = plan.blocks if limit is None else min(limit, plan.blocks)

    def block_s(group: LaneGroup, blocks: int) -> float:
        """Return the seconds of a block where each lane works on one of so many open blocks."""
        own = [arm for arm in plan.arms if arm.hardware in group.hardware]
        share = min(1.0, blocks / len(group.lanes))
        return plan.repeats * math.fsum(
            trial_s[str(arm)] / min(share * group.room(arm), blocks * len(own) * plan.repeats)
            for arm in own
        )

    read = {arm.hardware for arm in arms_that_speak(spec.search.objectives.values(), plan.arms)}
    pace_s = max(block_s(group, held) for group in groups if not group.hardware.isdisjoint(read))
    shares = {}
    for group in groups:
        own_s = block_s(group, plan.blocks)
        work_s = plan.blocks * own_s
        until_s = max(work_s, (plan.blocks - held) * pace_s + own_s)
        name = " and ".join(sorted(map(str, group.hardware)))
        shares[name] = 1 - work_s / until_s if until_s else 0.0
    return shares


def describe_pruner(spec: SweepSpec) -> list[str]:
    """Return a line on the blocks that may end before their last epoch; none without a pruner."""
    pruner = spec.search.pruner
    if pruner is None:
        return []
    line = f"  may prune blocks by {pruner.name}, from epoch {pruner.first_epoch} on"
    if pruner.name == "median":
        line += f", once {pruner.n_startup_trials} blocks are complete"
    return [f"{line}: the first arm of a block that runs decides for all"]


def describe_opening(
    spec: SweepSpec, plan: Plan, groups: Sequence[LaneGroup], trial_s: Mapping[str, float]
) -> str | None:
    """Return a line on how many blocks are open at once, and what waits for that.

    None if all are, or the sampler does not learn. The arguments are those of `idle_shares`.
    """
    limit = open_limit(spec, plan, groups)
    is_learning = spec.search.sampler in LEARNING
    if not is_learning or not plan.possible or limit is None or limit >= plan.blocks:
        return None
    line = (
        f"  open   {limit} of {plan.blocks} blocks at once (search.open_blocks), so that "
        f"{spec.search.sampler} learns from their results"
    )
    if len(groups) < 2:
        return line
    way_out = "more open blocks (the sampler learns less)"
    if set(arms_that_speak(spec.search.objectives.values(), plan.arms)) == set(plan.arms):
        way_out = (
            "objectives over the fast arms only (over: gpu), less work on the slow ones "
            f"(settings in arms.hardware) or {way_out}"
        )
    waits = "Fast hardware may wait for the hardware that the objectives read"
    if all(str(arm) in trial_s for arm in plan.arms):
        idle = idle_shares(spec, plan, groups, trial_s)
        shares = [f"{name} {share:.0%}" for name, share in idle.items() if share > _NOTICEABLE]
        if not shares:
            return f"{line}. No hardware waits long for that"
        waits = f"Expected share of idle time: {', '.join(shares)}"
    return f"{line}. {waits}. To avoid that: {way_out}"
