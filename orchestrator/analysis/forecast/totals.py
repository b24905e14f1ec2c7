"""Predicted totals of the rest of a sweep, from a cost model over configs not suggested yet.

The missing trials are simulated many times (`simulation.py`). The total is reported together with
the range of 90 % of these runs. An adaptive sampler suggests other configs than chance does, which
are not predictable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.analysis.cost_model import MEMORY, HeldOut, Models, NotPredicted
from orchestrator.analysis.forecast.simulation import (
    RUNS,
    Draws,
    RemainingTrials,
    make_draws,
    simulate,
)
from orchestrator.core.arms import Arm
from orchestrator.planning.pricing import price_of
from orchestrator.spec import Price

Totals = NDArray[np.float64]
"""One number a run."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A median over the simulated runs, and the range of 90 % of them."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ForecastTotals:
    """The remaining seconds of the clock, energy of the timed epochs, and money.

    None is unknown: energy that was not measured, hardware without a price. `peak_mib` has the most
    memory that a trial to come takes, by the metric's name, if fresh trainers measured it, and
    `peak_mib_interval` the range of 90 % of the runs. `refused` has the reasons why memory or
    energy is not predicted although some trials measured it. `method` and `held_out` describe the
    model of a trial's time.
    """

    seconds: Amount
    energy_j: Amount | None
    usd: Amount | None
    peak_mib: Mapping[str, float]
    method: str
    held_out: HeldOut
    peak_mib_interval: Mapping[str, tuple[float, float]]
    refused: Mapping[str, str]


def forecast_totals(
    ahead: RemainingTrials,
    models: Models,
    prices: Sequence[Price],
    makespan: Callable[[Mapping[Arm, float]], float],
) -> ForecastTotals:
    """Simulate the missing trials.

    Args:
        ahead: what is missing.
        models: of what was measured.
        prices: of the spec.
        makespan: how long arms take side by side that need so many seconds each.

    Raises:
        NotPredicted: too little was measured, or configs too far from what is to come, or some arm
            not at all.
    """
    draws, refused = make_draws(ahead), dict[str, str]()
    seconds = _totals(models, "trial_s", ahead, draws)
    energy = _energy(models, ahead, draws, refused)
    if energy is None and any(price.usd_per_kwh is not None for price in prices):
        prices = ()  # energy has a price and was not measured
    clock = [makespan({arm: float(seconds[arm][run]) for arm in seconds}) for run in range(RUNS)]
    peaks = _peaks(models, ahead, draws, refused)
    model = models.of("trial_s")
    return ForecastTotals(
        _amount(np.array(clock)),
        _amount(np.sum(list(energy.values()), axis=0)) if energy else None,
        _money(seconds, energy, prices),
        {target: peak.value for target, peak in peaks.items()},
        model.method,
        model.held_out,
        {target: (peak.low, peak.high) for target, peak in peaks.items()},
        refused,
    )


def _totals(models: Models, target: str, ahead: RemainingTrials, draws: Draws) -> dict[Arm, Totals]:
    """Return for each arm what its missing trials take together, in each simulated run."""
    arms = [arm for arm in ahead.arms if ahead.trials(arm)]
    costs = simulate(models.of(target), ahead, draws, arms)
    return {arm: cost.sum(axis=1) for arm, cost in costs.items()}


def _energy(
    models: Models, ahead: RemainingTrials, draws: Draws, refused: dict[str, str]
) -> dict[Arm, Totals] | None:
    """Return totals as `_totals` does; None if it was measured too rarely, or not on every arm."""
    try:
        return _totals(models, "energy_j", ahead, draws)
    except NotPredicted as why:
        if models.is_measured("energy_j"):
            refused["energy_j"] = str(why)
        return None


def _peaks(
    models: Models, ahead: RemainingTrials, draws: Draws, refused: dict[str, str]
) -> dict[str, Amount]:
    """Return the most memory that any trial to come takes; not predicted if a config is too far.

    The configs that are too far are the largest: the maximum of the others would be no bound.
    """
    peaks = {}
    for target in MEMORY:
        arms = [arm for arm in ahead.arms if ahead.trials(arm) and _has(arm, target)]
        if not arms or not models.is_measured(target):
            continue
        try:
            costs = simulate(models.of(target), ahead, draws, arms, far=0)
        except NotPredicted as why:
            refused[target] = str(why)
        else:
            largest = [cost.max(axis=1) for cost in costs.values()]
            peaks[target] = _amount(np.max(largest, axis=0))
    return peaks


def _has(arm: Arm, target: str) -> bool:
    """Return whether trials of the arm take memory of that kind."""
    return target != "peak_gpu_mib" or arm.device == "gpu"


def _money(
    seconds: Mapping[Arm, Totals], energy: Mapping[Arm, Totals] | None, prices: Sequence[Price]
) -> Amount | None:
    """Return what all of it costs; None if an arm has no price."""
    total = np.zeros(RUNS)
    for arm, taken in seconds.items():
        price = price_of(arm.hardware, prices)
        if price is None:
            return None
        total = total + (price.usd_per_hour or 0.0) / price.gpus / 3600 * taken
        if price.usd_per_kwh is not None and energy is not None:
            total = total + price.usd_per_kwh / 3.6e6 * energy[arm]
    return _amount(total) if seconds and prices else None


def _amount(values: Totals) -> Amount:
    low, middle, high = (float(quantile) for quantile in np.quantile(values, (0.05, 0.5, 0.95)))
    return Amount(middle, low, high)
