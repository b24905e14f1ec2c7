"""The done part of a plan, and the predicted time, energy and money of the rest.

A missing trial takes what the cost model predicts for its config, or else the mean of its arm's
trials so far. A start also takes time before and after its trials, between them, and for each
trainer process.
"""

import contextlib
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from orchestrator.analysis import cost_model
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, duration
from orchestrator.core.trial import Config, FinishedTrial, canonical, pruned_blocks
from orchestrator.planning.lanes import LaneGroup, make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.planning.pricing import price_of
from orchestrator.spec import Price
from orchestrator.storage import resume
from orchestrator.storage.journal import SweepState
from orchestrator.storage.tracking.run_content import all_settings
from workloads.implementations import parse_implementation

_START_S, _REPORT_S, _TRAINER_S, _PAUSE_S = 25.0, 6.0, 12.0, 0.1
"""Seconds before the first trial of a start (Ray, MLflow), after its last one (the report), for a
trainer that was not measured, and between two trials: two cores of an AMD EPYC, 2026-11-22."""

_UNCERTAIN = 2.0
"""The factor by which the time outside of trials may be longer or shorter than expected."""

MissingTrial: TypeAlias = tuple[Config | None, Arm, int]
"""A config, if it is known; the arm; and how many trials of it are missing."""


@dataclass(frozen=True, slots=True)
class Amount:
    """An expected sum, and its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The done part of a plan, the remaining part, and the prediction for that.

    `trial_s` are the median seconds of each arm's trials, by the arm's text. `seconds` are those of
    the clock, with the `overhead_s` outside of trials; None before each arm has run two trials.
    Energy and money are None where an energy or a price is unknown. `model_error` is the cost
    model's median error on held-out configs, if it predicts some trials. `expected` has, on
    request, the prediction for each missing trial whose config is known already.
    """

    done: int
    remaining: int
    trial_s: Mapping[str, float] = field(default_factory=dict)
    seconds: Amount | None = None
    overhead_s: float = 0.0
    energy_j: Amount | None = None
    usd: Amount | None = None
    model_error: float | None = None
    expected: tuple[cost_model.Expectation, ...] = ()


def forecast(
    plan: Plan, state: SweepState, prices: Sequence[Price], *, each_config: bool = False
) -> Forecast:
    """Predict the rest of a plan that resumes a sweep, from the trials of its state.

    With `each_config` single trials are predicted too.
    """
    finished = list(state.finished.values())
    retimed = resume.trials_to_retime(state, plan, retry_failed=False)
    settings = all_settings(state.identity, {})
    missing = list(_missing_trials(plan, state, retimed))
    remaining = sum(count for _, _, count in missing)
    medians_s: dict[str, list[float]] = defaultdict(list)
    for trial, seconds in zip(finished, cost_model.trial_seconds(finished), strict=True):
        if plan.includes(trial.trial):
            medians_s[str(trial.arm)].append(seconds)
    observations = cost_model.observe(finished, settings)
    overhead_s = _overhead_s(plan, missing, finished) if remaining else 0.0
    totals = _totals(plan, missing, observations, settings, prices) if remaining else {}
    if clock := totals.get("seconds"):
        low, high = clock.low + overhead_s / _UNCERTAIN, clock.high + overhead_s * _UNCERTAIN
        totals["seconds"] = Amount(clock.value + overhead_s, low, high)
    asked = {(canonical(c), arm): (c, arm) for c, arm, count in missing if c is not None and count}
    return Forecast(
        plan.trials - remaining,
        remaining,
        {arm: statistics.median(taken) for arm, taken in medians_s.items()},
        overhead_s=overhead_s,
        **totals,
        expected=tuple(cost_model.expect(observations, list(asked.values()), settings))
        if each_config and asked
        else (),
    )


def _missing_trials(
    plan: Plan, state: SweepState, retimed: Container[str]
) -> Iterator[MissingTrial]:
    """Yield the missing trials of suggested blocks, then of those not suggested yet."""
    done = Counter(
        (finished.trial.block, finished.trial.arm)
        for finished in state.finished.values()
        if plan.includes(finished.trial) and finished.trial.key not in retimed
    )
    suggested = [block for block in state.blocks.values() if plan.has_block(block.index)]
    pruned = pruned_blocks(state.finished.values())
    tried = {canonical(block.config) for block in suggested}
    listed = [config for config in plan.listed if canonical(config) not in tried]
    unknown = max(0, plan.blocks - len(suggested) - len(listed))
    for arm in plan.arms:
        for block in suggested:
            if block.index not in pruned:
                yield block.config, arm, plan.repeats - done[block.index, arm]
        for config in listed:
            yield config, arm, plan.repeats
        yield None, arm, plan.repeats * unknown


def _totals(
    plan: Plan,
    missing: Sequence[MissingTrial],
    observations: Sequence[cost_model.Observation],
    settings: Mapping[str, Any],
    prices: Sequence[Price],
) -> dict[str, Any]:
    """Return the predicted fields of a forecast; empty if an arm has too few trials."""
    seconds, model_error = _amounts("trial_s", missing, observations, settings)
    if seconds is None:
        return {}
    energy, _ = _amounts("energy_j", missing, observations, settings)
    clock = [
        makespan(plan, {arm: getattr(amount, name) for arm, amount in seconds.items()})
        for name in ("value", "low", "high")
    ]
    return {
        "seconds": Amount(*clock),
        "energy_j": _sum([(energy, dict.fromkeys(energy, 1.0))]) if energy else None,
        "usd": _money(seconds, energy, prices),
        "model_error": model_error,
    }


def _amounts(
    target: str,
    missing: Sequence[MissingTrial],
    observations: Sequence[cost_model.Observation],
    settings: Mapping[str, Any],
) -> tuple[dict[Arm, Amount] | None, float | None]:
    """Return what the missing trials of each arm take together, and the error of the cost model."""
    # Both are None if they are unknown: with less than two trials of an arm, or without a model.
    model: cost_model.CostModel | None = None
    with contextlib.suppress(cost_model.NotPredicted):
        model = cost_model.fit(observations, target)
    amounts, is_used = dict[Arm, Amount](), False
    for arm in dict.fromkeys(arm for _, arm, count in missing if count):
        own = [one.took[target] for one in observations if one.arm == arm and target in one.took]
        if len(own) < 2:
            return None, None
        trials = [(config, count) for config, other, count in missing if other == arm and count]
        values: list[float | None] = [None] * len(trials)
        if model and model.method == "ridge":
            rows = [(config or {}, arm) for config, _ in trials]  # without sizes it is refused
            values = [expectation.value for expectation in model.predict(rows, settings)]
        total, variance, shared = 0.0, 0.0, 0.0
        for value, (_, count) in zip(values, trials, strict=True):
            error = statistics.stdev(own)
            if model and value is not None:
                error, is_used = value * float(np.std(model.errors)), True
            total += count * (value or statistics.fmean(own))
            variance += count * error**2
            shared += count * error
        factor = float(stats.t.ppf(0.95, len(own) - 1))
        half = factor * math.sqrt(variance + shared**2 / len(own))
        amounts[arm] = Amount(total, max(0.0, total - half), total + half)
    return amounts, model.median_error if model and is_used else None


def _money(
    seconds: Mapping[Arm, Amount], energy: Mapping[Arm, Amount] | None, prices: Sequence[Price]
) -> Amount | None:
    """Return what all of it costs; None if an arm has no price, or its energy is not known."""
    by_arm = {arm: price for arm in seconds if (price := price_of(arm.hardware, prices))}
    has_energy_price = any(price.usd_per_kwh for price in by_arm.values())
    if len(by_arm) < len(seconds) or not seconds or (has_energy_price and energy is None):
        return None
    hourly = {arm: (p.usd_per_hour or 0.0) / p.gpus / 3600 for arm, p in by_arm.items()}
    by_joule = {arm: (price.usd_per_kwh or 0.0) / 3.6e6 for arm, price in by_arm.items()}
    return _sum([(seconds, hourly), (energy or {}, by_joule)])


def _sum(parts: Iterable[tuple[Mapping[Arm, Amount], Mapping[Arm, float]]]) -> Amount:
    """Return the weighted sum of the arms' amounts; their errors go together."""
    terms = [
        (amount, weights[arm]) for amounts, weights in parts for arm, amount in amounts.items()
    ]
    return Amount(
        math.fsum(amount.value * weight for amount, weight in terms),
        math.fsum(amount.low * weight for amount, weight in terms),
        math.fsum(amount.high * weight for amount, weight in terms),
    )


def _overhead_s(
    plan: Plan, missing: Sequence[MissingTrial], finished: Iterable[FinishedTrial]
) -> float:
    """Return the seconds of a start outside of its trials."""
    starts_s = defaultdict[object, list[float]](list)
    for one in finished:
        if one.trainer_trials == 0 and "setup_s" in one.metrics:
            took_s = one.metrics["setup_s"] + one.metrics.get("import_s", 0.0)
            starts_s[_process(one.arm)].append(took_s)
    groups = {use: group for group in make_lanes(plan) for use in group.hardware}
    extra_s, begun = dict[Arm, float](), set[object]()
    for _, arm, count in missing:
        extra_s[arm] = extra_s.get(arm, 0.0) + _PAUSE_S * count
        if count and plan.fresh_trainer_reason is None and _process(arm) not in begun:
            begun.add(_process(arm))
            start_s = statistics.median(starts_s.get(_process(arm), [_TRAINER_S]))
            extra_s[arm] += start_s * groups[arm.hardware].room(arm)
    return _START_S + makespan(plan, extra_s) + _REPORT_S


def _process(arm: Arm) -> object:
    """Return what identifies the trainer process of an arm on its node."""
    name = parse_implementation(arm.implementation, known_only=False).process
    name = name if arm.measure == "full" else arm.implementation
    return name, arm.hardware_class, arm.usage.threads


def makespan(plan: Plan, seconds: Mapping[Arm, float]) -> float:
    """Return how long arms take side by side whose trials need so many seconds together."""
    parts: list[list[LaneGroup]] = []  # of groups that share lanes; these work side by side
    for group in make_lanes(plan):
        shared = [p for p in parts if any({*group.lanes} & {*other.lanes} for other in p)]
        apart = [part for part in parts if part not in shared]
        parts = [*apart, [group, *itertools.chain(*shared)]]
    needed_s = [
        math.fsum(
            seconds[arm] / group.room(arm)
            for group in part
            for arm in seconds
            if arm.hardware in group.hardware and group.lanes
        )
        for part in parts
    ]
    return max(needed_s, default=0.0)


def describe_forecast(ahead: Forecast, *, at_most: bool = False) -> str:
    """Return how much is done, what the rest may take, and what predicts that.

    With `at_most` a sweep may end with fewer trials (`blocks: auto`, or a pruner).
    """
    if ahead.done and not ahead.remaining:
        return f"all {counted(ahead.done, 'trial')} are done"
    overhead = f"{duration(ahead.overhead_s)} to start, to load backends and to report"
    if ahead.seconds is None:
        return f"it may take {overhead}; the rest is known once each arm has run a few trials"
    bound = "at most " if at_most else ""
    took = f"{duration(ahead.seconds.low)} to {duration(ahead.seconds.high)}"
    lines = [
        f"{ahead.done} trials are done; the other {bound}{ahead.remaining} may take "
        f"{duration(ahead.seconds.value)} ({took}), of which {overhead}"
    ]
    if ahead.usd is not None:
        lines.append(f"  and cost {_range(ahead.usd)} USD")
    if ahead.energy_j is not None:
        lines.append(f"  and take {_range(ahead.energy_j, per=3.6e6)} kWh in their timed epochs")
    if ahead.model_error is None:
        lines.append("  judged by the mean of each arm's trials")
    else:
        lines.append(
            f"  judged by their sizes: off by {ahead.model_error:.0%} in the median on configs "
            "not shown to the model"
        )
    return "\n".join(lines)


def _range(amount: Amount, per: float = 1.0) -> str:
    value, low, high = (number / per for number in (amount.value, amount.low, amount.high))
    return f"{value:.2g} ({low:.2g} to {high:.2g})"
