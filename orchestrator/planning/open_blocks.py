"""The number of open blocks (suggested, without a result yet), and what that costs.

A sampler learns from the results of blocks. A block has a result once every arm that an objective
reads has run it. So few open blocks teach the sampler most. Each hardware class needs enough open
blocks to keep its devices at work. If an objective reads slow arms, blocks end at their pace, and
only a sweep with all blocks open keeps faster hardware busy to the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from orchestrator.planning.lanes import LaneGroup
from orchestrator.planning.objectives import arms_that_speak
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec

LEARNING = ("tpe", "nsga2", "gp")
"""Samplers that learn from the results of blocks."""


def open_limit(spec: SweepSpec, plan: Plan, groups: Sequence[LaneGroup]) -> int | None:
    """Return how many blocks may be open: the spec's choice, or as few as keep devices at work.

    Each lane of hardware that the objectives read has the blocks that keep its devices at work,
    and the next one. Tune gives up a worker for which no trial waits when its own ends, and the
    next trial begins with a cold one. None, for no limit, if the sampler does not learn.
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

    Args:
        spec: the sweep.
        plan: laid for it.
        groups: the lanes of the plan.
        trial_s: seconds of a trial, by the arm's text; each arm of the plan has some.

    Returns:
        By the names of a group's hardware, joined; groups without a lane are left out.
    """
    limit = open_limit(spec, plan, groups)
    held = plan.blocks if limit is None else min(limit, plan.blocks)
    groups = [group for group in groups if group.lanes]
    spoken = {arm.hardware for arm in arms_that_speak(spec.search.objectives.values(), plan.arms)}
    paces_s = [
        _block_s(plan, group, trial_s, held)
        for group in groups
        if not group.hardware.isdisjoint(spoken)
    ]
    pace_s = max(paces_s, default=0.0)
    shares = {}
    for group in groups:
        own_s = _block_s(plan, group, trial_s, plan.blocks)
        work_s = plan.blocks * own_s
        until_s = max(work_s, (plan.blocks - held) * pace_s + own_s)
        shares[" and ".join(sorted(map(str, group.hardware)))] = (
            1 - work_s / until_s if until_s else 0.0
        )
    return shares


def _block_s(plan: Plan, group: LaneGroup, trial_s: Mapping[str, float], blocks: int) -> float:
    """Return the seconds that a group takes for a block, with so many open blocks.

    Each of its lanes works on a block of its own.
    """
    own = [arm for arm in plan.arms if arm.hardware in group.hardware]
    share = min(1.0, blocks / len(group.lanes))
    return plan.repeats * math.fsum(
        trial_s[str(arm)] / min(share * group.room(arm), blocks * len(own) * plan.repeats)
        for arm in own
    )


def describe_opening(
    spec: SweepSpec, plan: Plan, groups: Sequence[LaneGroup], trial_s: Mapping[str, float]
) -> str | None:
    """Return a line on how many blocks are open at once, and what waits for that.

    None if all blocks are open at once, or if the sampler does not learn.

    Args:
        spec: the sweep.
        plan: laid for it.
        groups: the lanes of the plan.
        trial_s: seconds of a trial, by the arm's text, as far as they are known.
    """
    limit = open_limit(spec, plan, groups)
    if not plan.possible or spec.search.sampler not in LEARNING:
        return None
    if limit is None or limit >= plan.blocks:
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


_NOTICEABLE = 0.05
