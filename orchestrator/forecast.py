"""How much of a plan is done and how long the rest may take, from what the journal knows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.home import SweepFolder
from orchestrator.journal import read, replay
from orchestrator.placement import Lane, LaneGroup, make_lanes
from orchestrator.plan import Plan
from orchestrator.trial import Arm, FinishedTrial


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is done of a plan, what is left of it, and what that may take.

    `trial_s` are the median seconds of each arm's trials, by the arm's text; `remaining_s` is None
    where some arm of the plan has no trial yet to judge by.
    """

    done: int
    remaining: int
    remaining_s: float | None
    trial_s: Mapping[str, float] = field(default_factory=dict)


def forecast(plan: Plan, folder: SweepFolder) -> Forecast:
    """Judge what is left of a plan by the trials of this sweep's latest generation."""
    state = replay(read(folder.generation(folder.latest())))
    if state is None:
        return forecast_from(plan, ())
    finished = list(state.finished.values())
    return forecast_from(plan.over([*state.blocks.values(), *finished]), finished)


def forecast_from(plan: Plan, finished: Iterable[FinishedTrial]) -> Forecast:
    """Median seconds of each arm's trials × its missing trials, over what runs at once."""
    taken_s: dict[Arm, list[float]] = {arm: [] for arm in plan.arms}
    for each in finished:
        trial = each.trial
        in_plan = plan.holds(trial.block) and trial.repeat < plan.repeats
        if in_plan and trial.arm in taken_s:
            taken_s[trial.arm].append(each.outcome.ended_s - each.outcome.started_s)
    done = sum(map(len, taken_s.values()))
    trial_s = {arm: statistics.median(seconds) for arm, seconds in taken_s.items() if seconds}
    told = {str(arm): seconds for arm, seconds in trial_s.items()}
    if len(trial_s) < len(taken_s):
        return Forecast(done, plan.trials - done, None, told)
    groups = [group for group in make_lanes(plan) if group.lanes]
    longest_s = 0.0
    for members in _apart(groups):  # these work side by side, the slowest decides
        own_s = math.fsum(
            (plan.blocks * plan.repeats - len(taken_s[arm])) * seconds / group.room(arm)
            for group in members
            for arm, seconds in trial_s.items()
            if arm.hardware in group.hardware
        )
        longest_s = max(longest_s, own_s)
    return Forecast(done, plan.trials - done, longest_s, told)


def _apart(groups: Iterable[LaneGroup]) -> list[list[LaneGroup]]:
    """Groups that have nothing to do with each other: those that share a lane are together."""
    found: list[tuple[list[LaneGroup], set[Lane]]] = []
    for group in groups:
        members, lanes = [group], set(group.lanes)
        for other in [each for each in found if not each[1].isdisjoint(lanes)]:
            found.remove(other)
            members = [*other[0], *members]
            lanes |= other[1]
        found.append((members, lanes))
    return [members for members, _ in found]
