"""The cost of a trial, from the prices of its spec and from what was measured.

The hourly price covers the time in which a trial had its slot (a node, or a GPU), from set-up to
the last prediction, however it ended; the trials of a round divide that time by how long each one
worked (`slot_s`). Attempts that were lost with their worker or node are part of it: from when the
worker got the trial to when its loss was noticed. The price of a kilowatt-hour covers the measured
energy, which is the energy of the timed epochs; nobody measured the energy of a lost attempt.
`train_cost_usd` is the cost of the timed epochs: the part to compare, if trials share a start.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeAlias

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.criteria import HardwarePrice
from orchestrator.core.selectors import selects
from orchestrator.core.trial import FinishedTrial, Outcome
from orchestrator.spec import Price

AnyPrice: TypeAlias = Price | HardwarePrice
"""A price of a spec, or of the criteria of a sweep that was read back."""

_COSTS = ("cost_usd", "train_cost_usd")
_WORK = (
    "import_s",
    "load_s",
    "check_s",
    "compile_s",
    "train_s",
    "timed_s",
    "steps_s",
    "forward_s",
    "validate_s",
    "evaluate_s",
    "predict_s",
    "latency_s",
    "sample_s",
)
"""The metrics that add up to the time in which a trial itself worked. A workload of the user's may
have none of them."""

_HOUR_S = 3600.0
_KWH_J = 3.6e6


def priced(
    outcome: Outcome,
    arm: Arm,
    prices: Sequence[AnyPrice],
    together: Sequence[Outcome],
    *,
    lost_s: float = 0.0,
) -> Outcome:
    """Return the outcome with `cost_usd`, `train_cost_usd` and its `cost_basis`.

    There is no cost if no price means the arm's hardware, or if energy has a price and was not
    measured. A metric of that name that the workload reports itself stays. `together` are the
    outcomes of all trials of the round, this one's among them. `lost_s` is the trial's share of the
    time that its lost attempts had their slots.
    """
    price = price_of(arm.hardware, prices)
    billed_s = slot_s(outcome, together) + lost_s
    if price is None or billed_s <= 0:
        return outcome
    energy: float | None = 0.0
    if price.usd_per_kwh is not None:
        joules = outcome.metrics.get("energy_j")
        energy = None if joules is None else price.usd_per_kwh * joules / _KWH_J
    sharing = str(len(together)) if len(together) > 1 else ""
    costs: dict[str, float] = {}
    if energy is not None:
        hourly = (price.usd_per_hour or 0.0) / price.gpus / _HOUR_S
        costs["cost_usd"] = hourly * billed_s + energy
        if "train_s" in outcome.metrics:
            costs["train_cost_usd"] = hourly * outcome.metrics["train_s"] + energy
    return replace(
        outcome,
        metrics={**costs, **outcome.metrics},
        cost_basis=_basis(price, measured=energy is not None, sharing=sharing),
    )


def slot_s(outcome: Outcome, together: Sequence[Outcome]) -> float:
    """Return a trial's share of the time that its round took, in seconds.

    `together` are the outcomes of the round, this one's among them. Their shares add up to the time
    from the first start to the last end. Each has a share by the time that it worked itself, or an
    equal one if that is not recorded (of a trial that failed, for example).
    """
    took_s = max(o.ended_s for o in together) - min(o.started_s for o in together)
    equal_s = took_s / len(together)
    worked_s = _worked_s(outcome)
    if not worked_s:
        return equal_s
    return equal_s * worked_s / fmean(filter(None, map(_worked_s, together)))


def _worked_s(outcome: Outcome) -> float:
    """Return how long a trial itself worked; 0 if that is not recorded."""
    if outcome.failure is not None:
        return 0.0
    return math.fsum(outcome.metrics.get(name, 0.0) for name in _WORK)


def group_rounds(trials: Iterable[FinishedTrial]) -> Mapping[Hashable, Sequence[Outcome]]:
    """Return the outcomes of each round, by `round_key`."""
    rounds = defaultdict[Hashable, list[Outcome]](list)
    for trial in trials:
        rounds[round_key(trial)].append(trial.outcome)
    return rounds


def round_key(trial: FinishedTrial) -> Hashable:
    """Return what the trials of one round share, and no other trial has."""
    if trial.round_id is None:
        return trial.key
    return trial.block, trial.repeat, trial.node, trial.round_id


def repriced(
    trials: Sequence[FinishedTrial], prices: Sequence[AnyPrice]
) -> Sequence[FinishedTrial]:
    """Return finished trials with the costs of these prices, from their recorded times.

    Trials that have these prices already are unchanged, and so are all without any price. What lost
    attempts took was not kept with a trial: their cost is missing, and the basis says so.
    """
    if not prices:
        return trials
    rounds = group_rounds(trials)
    return [_repriced(trial, prices, rounds[round_key(trial)]) for trial in trials]


def _repriced(
    trial: FinishedTrial, prices: Sequence[AnyPrice], together: Sequence[Outcome]
) -> FinishedTrial:
    price, outcome = price_of(trial.arm.hardware, prices), trial.outcome
    sharing = str(len(together)) if len(together) > 1 else ""
    bases = [_basis(price, measured=m, sharing=sharing) for m in (True, False)] if price else []
    if outcome.cost_basis is not None and outcome.cost_basis in bases:
        return trial
    if outcome.cost_basis:  # costs of other prices
        kept = {name: value for name, value in outcome.metrics.items() if name not in _COSTS}
        outcome = replace(outcome, metrics=kept, cost_basis=None)
    outcome = priced(outcome, trial.arm, prices, together)
    if trial.attempt > 1 and outcome.cost_basis:
        outcome = replace(outcome, cost_basis=f"{outcome.cost_basis}, without its lost attempts")
    return replace(trial, outcome=outcome)


def price_of(hardware: HardwareUse, prices: Sequence[AnyPrice]) -> AnyPrice | None:
    """Return the first price that means a hardware class, however it is used, or None."""
    return next(
        (price for price in prices if selects(price.hardware, hardware.hardware_class)), None
    )


def describe_prices(prices: Sequence[AnyPrice], hardware: Iterable[HardwareUse]) -> list[str]:
    """Return a line on the cost of each arm's hardware; none if a spec has no prices."""
    if not prices:
        return []
    lines = []
    for name, arms in Counter(hardware).items():
        price, sharing = price_of(name, prices), "its" if arms > 1 else ""
        cost = _basis(price, measured=True, sharing=sharing) if price else None
        lines.append(f"  costs  {name}: {cost or 'none, because the spec has no price'}")
    return lines


def _basis(price: AnyPrice, *, measured: bool, sharing: str = "") -> str:
    """Return `0.526 USD/h from setup to predict (AWS …, 2026-11-01)`: billed parts and source."""
    parts = []
    if price.usd_per_hour is not None:
        share = f" / {price.gpus} GPUs" if price.gpus > 1 else ""
        scope = (
            f"of a round, divided among {sharing} trials by their time"
            if sharing
            else "from setup to predict"
        )
        parts.append(f"{price.usd_per_hour:g} USD/h{share} {scope}")
    if price.usd_per_kwh is not None:
        parts.append(f"{price.usd_per_kwh:g} USD/kWh of the timed epochs")
    absent = "" if measured else "no cost, as no energy was measured: "
    return f"{absent}{' and '.join(parts)} ({price.source}, {price.date})"
