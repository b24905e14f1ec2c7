"""What the rest of a sweep may take: a cost model over configs that are not suggested yet.

The missing trials are run many times over in thought: each unknown config is drawn from the search
space, each trial's time is what the model expects times an error as it made on configs that it was
not shown, and one more error is shared by all trials of an arm in one run, by what its mean may be
off. An adaptive sampler suggests other configs than chance does; nobody knows which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.cost_model import (
    MEMORY,
    CostModel,
    HeldOut,
    NotPredicted,
    Observation,
    draw_configs,
    fit,
)
from orchestrator.prices import price_of
from orchestrator.selector import usage_of
from orchestrator.spec import Price, Search
from orchestrator.trial import Arm, Config, canonical

_RUNS = 300
_POOL = 200
_FAR = 0.2
"""The share of configs to come that may be too far from those measured."""

Totals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Amount:
    """A median over the runs in thought, and where 90 % of them lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Ahead:
    """The missing trials of a sweep.

    `known` are those whose config was suggested; `unknown` the blocks whose config was not, and in
    each of them the arms' trials (with repeats).
    """

    known: tuple[tuple[Config, Arm], ...]
    unknown: int
    arms: Mapping[Arm, int]
    search: Search
    tried: tuple[Config, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is left: seconds of the clock, energy of the timed epochs, money.

    None where nothing is known: energy that was not measured, hardware without a price. `peak_mib`
    has the memory that the largest config to come is expected to take, by the metric's name, where
    fresh trainers have shown it. `method` and `held_out` tell of the model of a trial's time.
    """

    seconds: Amount
    energy_j: Amount | None
    usd: Amount | None
    peak_mib: Mapping[str, float]
    method: str
    held_out: HeldOut


def look_ahead(
    ahead: Ahead,
    observations: Sequence[Observation],
    prices: Sequence[Price],
    makespan: Callable[[Mapping[Arm, float]], float],
) -> Outlook:
    """Run the missing trials in thought.

    Args:
        ahead: what is missing.
        observations: what was measured.
        prices: of the spec.
        makespan: how long arms take side by side that need so many seconds each.

    Raises:
        NotPredicted: too little was measured, or configs too far from what is to come.
    """
    pool = _pool(ahead)
    model = fit(observations, "trial_s")
    dice = np.random.default_rng(0)
    picks = dice.integers(len(pool), size=(_RUNS, ahead.unknown)) if pool else None
    seconds = _totals(model, ahead, pool, picks, dice)
    energy = _energy(ahead, observations, pool, picks, dice)
    if energy is None and any(each.usd_per_kwh is not None for each in prices):
        prices = ()  # energy has a price and was not measured
    clock = [makespan({arm: float(seconds[arm][run]) for arm in seconds}) for run in range(_RUNS)]
    return Outlook(
        _amount(np.array(clock)),
        _amount(np.sum(list(energy.values()), axis=0)) if energy else None,
        _money(seconds, energy, prices),
        _peaks(ahead, observations, pool),
        model.method,
        model.held_out,
    )


def _energy(
    ahead: Ahead,
    observations: Sequence[Observation],
    pool: Sequence[Config],
    picks: NDArray[np.int64] | None,
    dice: np.random.Generator,
) -> dict[Arm, Totals] | None:
    """As `_totals`; None where it was measured of too few trials, or not on every arm."""
    try:
        return _totals(fit(observations, "energy_j"), ahead, pool, picks, dice)
    except NotPredicted:
        return None


def _peaks(
    ahead: Ahead, observations: Sequence[Observation], pool: Sequence[Config]
) -> dict[str, float]:
    """The largest memory that is expected of any config to come."""
    rows = [*ahead.known, *((config, arm) for config in pool for arm in ahead.arms)]
    found = {}
    for target in MEMORY:
        try:
            model = fit(observations, target)
        except NotPredicted:
            continue
        near = [
            (params, arm)
            for config, arm in rows
            if not model.features.why_not(params := _params(ahead, config, arm), arm)
        ]
        if near:
            found[target] = float(np.exp(model.logs(near).max()))
    return found


def _pool(ahead: Ahead) -> list[Config]:
    """Configs that unknown blocks may have."""
    if not ahead.unknown:
        return []
    if not (ahead.search.listed or ahead.search.sampler == "grid"):
        return draw_configs(ahead.search, _POOL, seed=0)
    tried = {canonical(config) for config in ahead.tried}
    every = ahead.search.listed or tuple(ahead.search.grid())
    return [config for config in every if canonical(config) not in tried] or list(every)


def _totals(
    model: CostModel,
    ahead: Ahead,
    pool: Sequence[Config],
    picks: NDArray[np.int64] | None,
    dice: np.random.Generator,
) -> dict[Arm, Totals]:
    """For each arm what its missing trials take together, in each run in thought."""
    arms = [arm for arm in ahead.arms if _trials(ahead, arm)]
    _expect_near(model, ahead, pool, arms)
    errors = np.array(model.errors)
    unsure = float(np.std(errors)) / math.sqrt(model.held_out.configs)
    found = {}
    for arm in arms:
        logs = []
        known = [(_params(ahead, config, arm), arm) for config, each in ahead.known if each == arm]
        if known:
            logs.append(np.tile(model.logs(known), (_RUNS, 1)))
        if pool and picks is not None and ahead.arms[arm]:
            expected = model.logs([(_params(ahead, config, arm), arm) for config in pool])
            logs.append(np.repeat(expected[picks], ahead.arms[arm], axis=1))
        every = np.hstack(logs)
        every = every + dice.choice(errors, size=every.shape)
        found[arm] = np.exp(every + dice.normal(0, unsure, size=(_RUNS, 1))).sum(axis=1)
    return found


def _expect_near(
    model: CostModel, ahead: Ahead, pool: Sequence[Config], arms: Sequence[Arm]
) -> None:
    rows = [(config, arm) for config, arm in ahead.known if arm in arms]
    rows += [(config, arm) for config in pool for arm in arms if ahead.arms[arm]]
    reasons = [model.features.why_not(_params(ahead, config, arm), arm) for config, arm in rows]
    far = [reason for reason in reasons if reason]
    if len(far) > _FAR * len(rows):
        raise NotPredicted(f"{model.target}: {far[0]}")


def _params(ahead: Ahead, config: Config, arm: Arm) -> Config:
    return {**ahead.settings, **config, **usage_of(arm.hardware).settings}


def _trials(ahead: Ahead, arm: Arm) -> int:
    return ahead.unknown * ahead.arms[arm] + sum(each == arm for _, each in ahead.known)


def _money(
    seconds: Mapping[Arm, Totals], energy: Mapping[Arm, Totals] | None, prices: Sequence[Price]
) -> Amount | None:
    """What all of it costs; None where an arm has no price."""
    total = np.zeros(_RUNS)
    for arm, taken in seconds.items():
        price = price_of(arm.hardware, prices)
        if price is None:
            return None
        total = total + (price.usd_per_hour or 0.0) / price.gpus / 3600 * taken
        if price.usd_per_kwh is not None and energy is not None:
            total = total + price.usd_per_kwh / 3.6e6 * energy[arm]
    return _amount(total) if seconds and prices else None


def _amount(values: Totals) -> Amount:
    low, middle, high = (float(each) for each in np.quantile(values, (0.05, 0.5, 0.95)))
    return Amount(middle, low, high)
