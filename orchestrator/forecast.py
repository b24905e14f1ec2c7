"""How much of a plan is done and how long the rest may take, from what the journal knows."""

from __future__ import annotations

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
    longest_s = 0.0
    for hardware, lanes in _apart(make_lanes(plan)):  # these work side by side, the slowest decides
        work_s = sum(
            (plan.blocks * plan.repeats - len(taken_s[arm])) * seconds
            for arm, seconds in trial_s.items()
            if arm.hardware in hardware
        )
        longest_s = max(longest_s, work_s / sum(lane.slots for lane in lanes))
    return Forecast(done, plan.trials - done, longest_s, told)


def _apart(groups: Iterable[LaneGroup]) -> list[tuple[set[str], set[Lane]]]:
    """Hardware and lanes that have nothing to do with each other: groups that share a lane are one.

    A group of no lane, whose nodes are gone, is left out.
    """
    found: list[tuple[set[str], set[Lane]]] = []
    for group in groups:
        hardware, lanes = set(group.hardware), set(group.lanes)
        for other in [each for each in found if not each[1].isdisjoint(lanes)]:
            found.remove(other)
            hardware |= other[0]
            lanes |= other[1]
        if lanes:
            found.append((hardware, lanes))
    return found
