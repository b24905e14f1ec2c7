"""The done part of a plan, and the predicted time of the rest, from the journals of a home."""

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
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, duration
from orchestrator.core.trial import FinishedTrial, SweepIdentity
from orchestrator.planning.lanes import Lane, LaneGroup, make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import SweepState, read, replay


@dataclass(frozen=True, slots=True)
class Forecast:
    """The done part of a plan, the remaining part, and the prediction for that.

    `trial_s` are the median seconds of each arm's trials, by the arm's text. `remaining_s` is None
    if some arm of the plan has no trial yet. It is predicted from these medians, or, if there are
    `totals`, from a model of the configs' sizes, which learns from the sweeps `helped_by` as well.
    Without a model, `medians_reason` is the reason. `expected` has, on request, the prediction for
    each missing trial whose config is known already.
    """

    done: int
    remaining: int
    remaining_s: float | None
    trial_s: Mapping[str, float] = field(default_factory=dict)
    totals: ForecastTotals | None = None
    helped_by: tuple[str, ...] = ()
    medians_reason: str | None = None
    expected: tuple[Expectation, ...] = ()


def forecast(
    plan: Plan, folder: SweepFolder, spec: SweepSpec, *, each_config: bool = False
) -> Forecast:
    """Predict the rest of a plan from the trials of this sweep's latest generation.

    If these are too few, or too far from the configs to come, the trials of the home's other sweeps
    of the same workload help. With `each_config` single trials are predicted too.
    """
    state = replay(read(folder.generation(folder.latest())))
    new = SweepIdentity(spec.name, 1, spec.workload, spec.settings, {}, 0, None)
    state = state or SweepState(new, {})
    finished = list(state.finished.values())
    resumed = plan.resumed_from([*state.blocks.values(), *finished])
    retimed = resume.trials_to_retime(state, plan, retry_failed=False)
    by_medians = forecast_from(resumed, finished, retimed)
    if not by_medians.remaining or not plan.arms:
        return by_medians
    settings = settings_of(state.identity)
    missing = _missing_trials(resumed, state, spec, settings, retimed)

    def look(models: Models) -> ForecastTotals | NotPredicted:
        try:
            return forecast_totals(
                missing, models, spec.prices, lambda needed: makespan(resumed, needed)
            )
        except NotPredicted as refused:
            return refused

    models, helped = Models(observe(finished, settings)), tuple[str, ...]()
    prediction = look(models)
    if isinstance(prediction, NotPredicted) and (history := dict(others(folder, spec.workload))):
        models = Models([*models.observations, *itertools.chain(*history.values())])
        helped, prediction = tuple(history), look(models)
    expected = tuple(expect(models, missing.named(), settings)) if each_config else ()
    judged = replace(by_medians, helped_by=helped, expected=expected)
    if isinstance(prediction, NotPredicted):
        return replace(judged, medians_reason=str(prediction))
    return replace(judged, remaining_s=prediction.seconds.value, totals=prediction)


def forecast_from(
    plan: Plan, finished: Iterable[FinishedTrial], retimed: Container[str] = ()
) -> Forecast:
    """Predict from the median seconds of each arm's trials, over what runs at once.

    Trials to time again (`retimed`, by key) count for the medians, and are missing.
    """
    taken_s: dict[Arm, list[float]] = {arm: [] for arm in plan.arms}
    ended: Counter[Arm] = Counter()
    trials = list(finished)
    for trial, seconds in zip(trials, trial_seconds(trials), strict=True):
        if plan.includes(trial.trial):
            taken_s[trial.arm].append(seconds)
            ended[trial.arm] += trial.key not in retimed
    done = ended.total()
    trial_s = {arm: statistics.median(seconds) for arm, seconds in taken_s.items() if seconds}
    medians_s = {str(arm): seconds for arm, seconds in trial_s.items()}
    if len(trial_s) < len(taken_s):
        return Forecast(done, plan.trials - done, None, medians_s)
    each_arm = plan.blocks * plan.repeats
    left_s = {arm: (each_arm - ended[arm]) * trial_s[arm] for arm in trial_s}
    return Forecast(done, plan.trials - done, makespan(plan, left_s), medians_s)


def makespan(plan: Plan, seconds: Mapping[Arm, float]) -> float:
    """Return how long arms take side by side whose trials need so many seconds together."""
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


def _missing_trials(
    plan: Plan,
    state: SweepState,
    spec: SweepSpec,
    settings: Mapping[str, Any],
    retimed: Container[str],
) -> RemainingTrials:
    """Return the missing trials, of suggested blocks and of those not suggested yet."""
    done = Counter(
        (finished.trial.block, finished.trial.arm)
        for finished in state.finished.values()
        if plan.includes(finished.trial) and finished.trial.key not in retimed
    )
    suggested = [block for block in state.blocks.values() if plan.has_block(block.index)]
    suggested_trials = [
        (block.config, arm)
        for block in suggested
        for arm in plan.arms
        for _ in range(plan.repeats - done[block.index, arm])
    ]
    return RemainingTrials(
        tuple(suggested_trials),
        max(0, plan.blocks - len(suggested)),
        dict.fromkeys(plan.arms, plan.repeats),
        spec.search,
        tuple(block.config for block in suggested),
        settings,
    )


def _apart(groups: Iterable[LaneGroup]) -> list[list[LaneGroup]]:
    """Return sets of groups that work independently: groups that share a lane are together."""
    parts: list[tuple[list[LaneGroup], set[Lane]]] = []
    for group in groups:
        members, lanes = [group], set(group.lanes)
        for other in [part for part in parts if not part[1].isdisjoint(lanes)]:
            parts.remove(other)
            members = [*other[0], *members]
            lanes |= other[1]
        parts.append((members, lanes))
    return [members for members, _ in parts]


def describe_forecast(ahead: Forecast, *, at_most: bool = False) -> str:
    """Return how much is done, what the rest may take, and what predicts that.

    With `at_most` a sweep may end with fewer trials (`blocks: auto`).
    """
    totals = ahead.totals
    if ahead.done and not ahead.remaining:
        return f"all {counted(ahead.done, 'trial')} are done"
    if totals is None and ahead.remaining_s is None:
        has_trials = ahead.medians_reason and (ahead.trial_s or ahead.helped_by)
        why = f" ({ahead.medians_reason})" if has_trials else ""
        return f"how long it takes is known once each arm has run a trial{why}"
    bound = "at most " if at_most else ""
    trials = (
        f"the other {bound}{ahead.remaining}" if ahead.done else counted(ahead.remaining, "trial")
    )
    done = f"{ahead.done} trials are done; " if ahead.done else bound
    beginning = f"{done}{trials} may take "
    if totals is None:
        why = f" ({ahead.medians_reason})" if ahead.medians_reason else ""
        return f"{beginning}{duration(ahead.remaining_s or 0.0)}, judged by these{why}"
    seconds = totals.seconds
    interval = f"{duration(seconds.low)} to {duration(seconds.high)}"
    lines = [
        f"{beginning}{duration(seconds.value)} ({interval})",
        *_spending(totals),
        f"  {_judged_by(totals)}",
        *([f"  with those of {', '.join(ahead.helped_by)}"] if ahead.helped_by else []),
        f"  of configs not shown to it, it was off by {totals.held_out.median:.0%} in the median",
    ]
    return "\n".join(lines)


def _judged_by(totals: ForecastTotals) -> str:
    over = counted(totals.held_out.configs, "config")
    if totals.method == "medians":
        return f"judged by each arm's median over {over}, better than any model of their sizes"
    return f"judged by their sizes: a {totals.method} model of {over}"


_SPENT = {
    "energy_j": "energy",
    "peak_rss_mib": "peak memory",
    "peak_gpu_mib": "peak GPU memory",
}


def _spending(totals: ForecastTotals) -> Iterator[str]:
    if totals.usd is not None:
        yield f"  and cost {_range(totals.usd)} USD"
    if totals.energy_j is not None:
        yield f"  and take {_range(totals.energy_j, per=3.6e6)} kWh in their timed epochs"
    for metric, mib in totals.peak_mib.items():
        low, high = totals.peak_mib_interval[metric]
        yield f"  {_SPENT[metric]} up to {mib:,.0f} MiB ({low:,.0f} to {high:,.0f})"
    for metric, reason in totals.refused.items():
        yield f"  {_SPENT[metric]} cannot be predicted ({reason})"


def _range(amount: Amount, per: float = 1.0) -> str:
    value, low, high = (number / per for number in (amount.value, amount.low, amount.high))
    return f"{value:.2g} ({low:.2g} to {high:.2g})"
