"""How much of a plan is done and how long the rest may take, from what the journal knows."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.analysis.cost_model import (
    Expectation,
    Models,
    NotPredicted,
    expect,
    observe,
    trial_seconds,
)
from orchestrator.analysis.forecast.history import others, settings_of
from orchestrator.analysis.forecast.simulation import RemainingTrials
from orchestrator.analysis.forecast.totals import Amount, ForecastTotals, forecast_totals
from orchestrator.core.text import counted, duration
from orchestrator.core.trial import Arm, FinishedTrial, SweepIdentity
from orchestrator.planning.lanes import Lane, LaneGroup, make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import SweepState, read, replay


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is done of a plan, what is left of it, and what that may take.

    `trial_s` are the median seconds of each arm's trials, by the arm's text. `remaining_s` is None
    where some arm of the plan has no trial yet to judge by; it is by those medians, or, where
    there are `totals`, by a model of what the sizes of the configs to come take, learnt from the
    sweeps `helped_by` as well. Without a model, `medians_reason` is the reason. `expected` has, if
    it was asked for, what each missing trial may take whose config is known already.
    """

    done: int
    remaining: int
    remaining_s: float | None
    trial_s: Mapping[str, float] = field(default_factory=dict)
    totals: ForecastTotals | None = None
    helped_by: tuple[str, ...] = ()
    medians_reason: str = ""
    expected: tuple[Expectation, ...] = ()


def forecast(
    plan: Plan, folder: SweepFolder, spec: SweepSpec, *, each_config: bool = False
) -> Forecast:
    """Judge what is left of a plan by the trials of this sweep's latest generation.

    Where these are too few, or too far from what is to come, those of the home's other sweeps of
    the same workload help. With `each_config` what single trials may take is told too.
    """
    state = replay(read(folder.generation(folder.latest())))
    new = SweepIdentity(spec.name, 1, spec.workload, spec.settings, {}, 0, None)
    state = state or SweepState(new, {})
    finished = list(state.finished.values())
    going_on = plan.resumed_from([*state.blocks.values(), *finished])
    reruns = resume.planned_reruns(state, plan, spec.disturbance_limits, retry_failed=False)
    by_medians = forecast_from(going_on, finished, reruns)
    if not by_medians.remaining or not plan.arms:
        return by_medians
    settings = settings_of(state.identity)
    ahead = _ahead(going_on, state, spec, settings, reruns)

    def look(models: Models) -> ForecastTotals | NotPredicted:
        try:
            return forecast_totals(
                ahead, models, spec.prices, lambda needed: makespan(going_on, needed)
            )
        except NotPredicted as refused:
            return refused

    models, helped = Models(observe(finished, settings)), tuple[str, ...]()
    found = look(models)
    if isinstance(found, NotPredicted) and (history := dict(others(folder, spec.workload))):
        models = Models([*models.observations, *itertools.chain(*history.values())])
        helped, found = tuple(history), look(models)
    expected = tuple(expect(models, ahead.named(), settings)) if each_config else ()
    told = replace(by_medians, helped_by=helped, expected=expected)
    if isinstance(found, NotPredicted):
        return replace(told, medians_reason=str(found))
    return replace(told, remaining_s=found.seconds.value, totals=found)


def forecast_from(
    plan: Plan, finished: Iterable[FinishedTrial], reruns: Container[str] = ()
) -> Forecast:
    """Median seconds of each arm's trials × its missing trials, over what runs at once.

    Trials that are to be done `reruns` (by key) tell how long they take, and are missing.
    """
    taken_s: dict[Arm, list[float]] = {arm: [] for arm in plan.arms}
    ended: Counter[Arm] = Counter()
    every = list(finished)
    for each, seconds in zip(every, trial_seconds(every), strict=True):
        if plan.includes(each.trial):
            taken_s[each.trial.arm].append(seconds)
            ended[each.trial.arm] += each.trial.key not in reruns
    done = ended.total()
    trial_s = {arm: statistics.median(seconds) for arm, seconds in taken_s.items() if seconds}
    told = {str(arm): seconds for arm, seconds in trial_s.items()}
    if len(trial_s) < len(taken_s):
        return Forecast(done, plan.trials - done, None, told)
    each_arm = plan.blocks * plan.repeats
    left_s = {arm: (each_arm - ended[arm]) * trial_s[arm] for arm in trial_s}
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


def _ahead(
    plan: Plan,
    state: SweepState,
    spec: SweepSpec,
    settings: Mapping[str, Any],
    reruns: Container[str],
) -> RemainingTrials:
    """The trials that are missing: of blocks that were suggested, and of those that were not."""
    done = Counter(
        (finished.trial.block, finished.trial.arm)
        for finished in state.finished.values()
        if plan.includes(finished.trial) and finished.trial.key not in reruns
    )
    suggested = [block for block in state.blocks.values() if plan.has_block(block.index)]
    known = [
        (block.config, arm)
        for block in suggested
        for arm in plan.arms
        for _ in range(plan.repeats - done[block.index, arm])
    ]
    return RemainingTrials(
        tuple(known),
        max(0, plan.blocks - len(suggested)),
        dict.fromkeys(plan.arms, plan.repeats),
        spec.search,
        tuple(block.config for block in suggested),
        settings,
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


def describe_forecast(ahead: Forecast, *, at_most: bool = False) -> str:
    """How much is done, what the rest may take, and what that is judged by.

    With `at_most` a sweep may end with fewer trials, as soon as it can tell (`blocks: auto`).
    """
    found = ahead.totals
    if ahead.done and not ahead.remaining:
        return f"all of its {counted(ahead.done, 'trial')} are done"
    if found is None and ahead.remaining_s is None:
        known = ahead.medians_reason and (ahead.trial_s or ahead.helped_by)
        why = f" ({ahead.medians_reason})" if known else ""
        return f"how long it takes is known once each arm has run a trial{why}"
    bound = "at most " if at_most else ""
    left = (
        f"the other {bound}{ahead.remaining}" if ahead.done else counted(ahead.remaining, "trial")
    )
    done = f"{ahead.done} trials are done; " if ahead.done else bound
    told = f"{done}{left} may take "
    if found is None:
        why = f" ({ahead.medians_reason})" if ahead.medians_reason else ""
        return f"{told}{duration(ahead.remaining_s or 0.0)}, judged by these{why}"
    seconds = found.seconds
    lines = [
        f"{told}{duration(seconds.value)} ({duration(seconds.low)} to {duration(seconds.high)})",
        *_spending(found),
        f"  {_judged_by(found)}",
        *([f"  with those of {', '.join(ahead.helped_by)}"] if ahead.helped_by else []),
        f"  of configs not shown to it, it was off by {found.held_out.median:.0%} in the median",
    ]
    return "\n".join(lines)


def _judged_by(found: ForecastTotals) -> str:
    over = counted(found.held_out.configs, "config")
    if found.method == "medians":
        return f"judged by each arm's median over {over}, better than any model of their sizes"
    return f"judged by their sizes: a {found.method} model of {over}"


_SPENT = {
    "energy_j": "energy",
    "peak_rss_mib": "peak memory",
    "peak_gpu_mib": "peak GPU memory",
}


def _spending(found: ForecastTotals) -> Iterator[str]:
    if found.usd is not None:
        yield f"  and cost {_range(found.usd)} USD"
    if found.energy_j is not None:
        yield f"  and take {_range(found.energy_j, per=3.6e6)} kWh in their timed epochs"
    for metric, mib in found.peak_mib.items():
        low, high = found.peak_mib_interval[metric]
        yield f"  {_SPENT[metric]} up to {mib:,.0f} MiB ({low:,.0f} to {high:,.0f})"
    for metric, why in found.refused.items():
        yield f"  {_SPENT[metric]} cannot be told ({why})"


def _range(amount: Amount, per: float = 1.0) -> str:
    value, low, high = (number / per for number in (amount.value, amount.low, amount.high))
    return f"{value:.2g} ({low:.2g} to {high:.2g})"
