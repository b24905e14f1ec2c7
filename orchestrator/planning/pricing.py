"""What a trial cost, from the prices of its spec and from what was measured.

By the hour a trial pays for the time in which it had its slot (a node, or a GPU): all phases, from
setting up to the last prediction, whatever became of it; not for waiting in the queue. By the
kilowatt-hour it pays for the energy that was measured, which is that of its timed epochs alone.
`train_cost_usd` is what the timed epochs cost: the part to compare, where trials share a start.
Trials that took turns had one slot together: its time is shared, and nobody pays for waiting twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.core.arms import HardwareUse
from orchestrator.core.names import selects
from orchestrator.core.trial import Arm, Outcome
from orchestrator.spec import Price

_HOUR_S = 3600.0
_KWH_J = 3.6e6


def priced(
    outcome: Outcome, arm: Arm, prices: Sequence[Price], took_turns: Sequence[Outcome] = ()
) -> Outcome:
    """The outcome with `cost_usd`, `train_cost_usd` and its `cost_basis`.

    Where no price means the arm's hardware, or energy has a price and was not measured, there is no
    cost; a metric of that name that the workload tells itself stays. It is that of one attempt:
    nobody knows when those ended that were lost with their worker.

    Args:
        outcome: how the trial ended.
        arm: on which hardware.
        prices: the spec's.
        took_turns: the outcomes of all trials that had the slot together, this one's among them.
    """
    price = price_of(arm.hardware, prices)
    together = took_turns or (outcome,)
    slot_s = max(outcome.ended_s for outcome in together) - min(
        outcome.started_s for outcome in together
    )
    if price is None or slot_s <= 0:
        return outcome
    energy = _energy_cost(outcome, price)
    sharing = str(len(together)) if len(together) > 1 else ""
    costs: dict[str, float] = {}
    if energy is not None:
        hourly = (price.usd_per_hour or 0.0) / price.gpus / _HOUR_S
        costs["cost_usd"] = hourly * slot_s / len(together) + energy
        if "train_s" in outcome.metrics:
            costs["train_cost_usd"] = hourly * outcome.metrics["train_s"] + energy
    return replace(
        outcome,
        metrics={**costs, **outcome.metrics},
        cost_basis=_basis(price, measured=energy is not None, sharing=sharing),
    )


def price_of(hardware: HardwareUse, prices: Sequence[Price]) -> Price | None:
    """The first price that means a hardware class, however it is used; None if none does."""
    return next(
        (price for price in prices if selects(price.hardware, hardware.hardware_class)), None
    )


def describe_prices(prices: Sequence[Price], hardware: Iterable[HardwareUse]) -> list[str]:
    """What each hardware class costs, a line each; a price that was meant for it may not fit.

    Nothing where a spec has no prices.
    """
    costs = {name: price_of(name, prices) for name in dict.fromkeys(hardware)} if prices else {}
    return [
        f"  costs  {each}: {_promise(each, price) if price else 'no price, and so no cost'}"
        for each, price in costs.items()
    ]


def _promise(hardware: HardwareUse, price: Price) -> str:
    sharing = "its" if hardware.usage.measure == "timing" else ""
    return _basis(price, measured=True, sharing=sharing)


def _energy_cost(outcome: Outcome, price: Price) -> float | None:
    """What the measured energy costs; 0 where energy has no price, None where it is not known."""
    if price.usd_per_kwh is None:
        return 0.0
    joules = outcome.metrics.get("energy_j")
    return None if joules is None else price.usd_per_kwh * joules / _KWH_J


def _basis(price: Price, *, measured: bool, sharing: str = "") -> str:
    """`0.526 USD/h from setup to predict (AWS …, 2026-11-01)`: what is billed, and who says so."""
    parts = []
    if price.usd_per_hour is not None:
        share = f" / {price.gpus} GPUs" if price.gpus > 1 else ""
        of = f"of a round, shared by {sharing} trials" if sharing else "from setup to predict"
        parts.append(f"{price.usd_per_hour:g} USD/h{share} {of}")
    if price.usd_per_kwh is not None:
        parts.append(f"{price.usd_per_kwh:g} USD/kWh of the timed epochs")
    absent = "" if measured else "no cost, as no energy was measured: "
    return f"{absent}{' and '.join(parts)} ({price.source}, {price.date})"
