"""How much of a plan is done and how long the rest may take, from what the journal knows."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from orchestrator.cost_model import NotPredicted, observe, trial_seconds
from orchestrator.hardware import counted
from orchestrator.home import SweepFolder
from orchestrator.journal import SweepState, read, replay
from orchestrator.outlook import Ahead, Amount, Outlook, look_ahead
from orchestrator.placement import Lane, LaneGroup, make_lanes
from orchestrator.plan import Plan
from orchestrator.progress import duration
from orchestrator.spec import SweepSpec
from orchestrator.trial import Arm, FinishedTrial


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is done of a plan, what is left of it, and what that may take.

    `trial_s` are the median seconds of each arm's trials, by the arm's text. `remaining_s` is None
    where some arm of the plan has no trial yet to judge by; it is by those medians, or, where
    there is an `outlook`, by a model of what the sizes of the configs to come take. Where there is
    none `why_medians` says why.
    """

    done: int
    remaining: int
    remaining_s: float | None
    trial_s: Mapping[str, float] = field(default_factory=dict)
    outlook: Outlook | None = None
    why_medians: str = ""


def forecast(plan: Plan, folder: SweepFolder, spec: SweepSpec) -> Forecast:
    """Judge what is left of a plan by the trials of this sweep's latest generation."""
    state = replay(read(folder.generation(folder.latest())))
    if state is None:
        return forecast_from(plan, ())
    finished = list(state.finished.values())
    going_on = plan.over([*state.blocks.values(), *finished])
    by_medians = forecast_from(going_on, finished)
    if by_medians.remaining_s is None or not by_medians.remaining:
        return by_medians
    try:
        found = look_ahead(
            _ahead(going_on, state, spec),
            observe(finished, state.identity.settings),
            spec.prices,
            lambda seconds: makespan(going_on, seconds),
        )
    except NotPredicted as refused:
        return replace(by_medians, why_medians=str(refused))
    return replace(by_medians, remaining_s=found.seconds.value, outlook=found)


def forecast_from(plan: Plan, finished: Iterable[FinishedTrial]) -> Forecast:
    """Median seconds of each arm's trials × its missing trials, over what runs at once."""
    taken_s: dict[Arm, list[float]] = {arm: [] for arm in plan.arms}
    every = list(finished)
    for each, seconds in zip(every, trial_seconds(every), strict=True):
        if _is_planned(plan, each):
            taken_s[each.trial.arm].append(seconds)
    done = sum(map(len, taken_s.values()))
    trial_s = {arm: statistics.median(seconds) for arm, seconds in taken_s.items() if seconds}
    told = {str(arm): seconds for arm, seconds in trial_s.items()}
    if len(trial_s) < len(taken_s):
        return Forecast(done, plan.trials - done, None, told)
    each_arm = plan.blocks * plan.repeats
    left_s = {arm: (each_arm - len(taken_s[arm])) * trial_s[arm] for arm in trial_s}
    return Forecast(done, plan.trials - done, makespan(plan, left_s), told)


def makespan(plan: Plan, seconds: Mapping[Arm, float]) -> float:
    """How long arms take side by side whose trials need so many seconds together."""
    groups = [group for group in make_lanes(plan) if group.lanes]
    longest_s = 0.0
    for members in _apart(groups):  # these work side by side, the slowest decides
        own_s = math.fsum(
            needed_s / group.room(arm)
            for group in members
            for arm, needed_s in seconds.items()
            if arm.hardware in group.hardware
        )
        longest_s = max(longest_s, own_s)
    return longest_s


def _is_planned(plan: Plan, each: FinishedTrial) -> bool:
    trial = each.trial
    return plan.holds(trial.block) and trial.repeat < plan.repeats and trial.arm in plan.arms


def _ahead(plan: Plan, state: SweepState, spec: SweepSpec) -> Ahead:
    """The trials that are missing: of blocks that were suggested, and of those that were not."""
    done = Counter(
        (each.trial.block, each.trial.arm)
        for each in state.finished.values()
        if _is_planned(plan, each)
    )
    suggested = [block for block in state.blocks.values() if plan.holds(block.index)]
    known = [
        (block.config, arm)
        for block in suggested
        for arm in plan.arms
        for _ in range(plan.repeats - done[block.index, arm])
    ]
    return Ahead(
        tuple(known),
        max(0, plan.blocks - len(suggested)),
        dict.fromkeys(plan.arms, plan.repeats),
        spec.search,
        tuple(block.config for block in suggested),
        state.identity.settings,
    )


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


def describe_forecast(ahead: Forecast) -> str:
    """How much is done, what the rest may take, and what that is judged by."""
    if ahead.remaining_s is None:
        return "how long it takes is known once each arm has run a trial"
    told = f"{ahead.done} trials are done; the other {ahead.remaining} may take "
    found = ahead.outlook
    if found is None:
        why = f" ({ahead.why_medians})" if ahead.why_medians else ""
        return f"{told}{duration(ahead.remaining_s)}, judged by these{why}"
    seconds, held = found.seconds, found.held_out
    over = counted(held.configs, "config")
    lines = [
        f"{told}{duration(seconds.value)} ({duration(seconds.low)} to {duration(seconds.high)})",
        f"  judged by their sizes ({found.method}, learnt from {over}; of configs that it was not "
        f"shown it was off by {held.median:.0%} in the median, and by {held.ninetieth:.0%} or less "
        "in 9 of 10 trials)",
    ]
    if found.usd is not None:
        lines.append(f"  may cost {_usd(found.usd)}")
    return "\n".join(lines)


def _usd(amount: Amount) -> str:
    return f"{amount.value:.2g} USD ({amount.low:.2g} to {amount.high:.2g})"
