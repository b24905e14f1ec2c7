"""Accuracy against what it costs (time, energy, money, memory): one Pareto front for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import Front, front_of, grouped, scope_of
from orchestrator.core.arms import HardwareRef
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial

ACCURACIES: Mapping[str, Direction] = {
    "val_accuracy": "maximize",
    "val_bits_per_char": "minimize",
    "val_loss": "minimize",
    "accuracy": "maximize",
    "loss": "minimize",
}
"""What stands for accuracy: the first of these that was measured."""

_FRESH_ONLY = ("peak_rss_mib", "peak_gpu_mib")

EXPENSES = ("train_s", "energy_j", "train_cost_usd", *_FRESH_ONLY)
"""What it may cost. Peak memory only where every trainer was fresh: else few configs have it."""


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The front of one accuracy against one expense, on one hardware class or (None) over all.

    Energies of unlike scopes are never on one front: `scope` is what the energy is that of. A
    config whose own repeats have unlike ones is on none.
    """

    accuracy: str
    expense: str
    hardware: HardwareRef | None
    front: Front
    scope: str = ""


def trade_offs(trials: Sequence[FinishedTrial]) -> tuple[TradeOff, ...]:
    """Every front of these trials: over all hardware first, where there are several classes.

    Arms that were timed in slices learned nothing and stand on none.

    Args:
        trials: those of arms that compute alike and did the same amount of work.
    """
    full = [trial for trial in trials if trial.arm.measure == "full"]
    complete = [trial for trial in full if trial.status == "complete"]
    measured = {metric for trial in complete for metric in trial.metrics}
    if any(trial.trainer_trials > 0 for trial in complete):
        measured -= set(_FRESH_ONLY)
    accuracy = next((metric for metric in ACCURACIES if metric in measured), None)
    if accuracy is None:
        return ()
    places: dict[HardwareRef | None, list[list[FinishedTrial]]] = {}
    for repeats in grouped(full):
        places.setdefault(repeats[0].arm.hardware_class, []).append(repeats)
    return tuple(
        found
        for expense in EXPENSES
        if expense in measured
        for found in _fronts(places, accuracy, expense)
    )


_Configs = list[Sequence[FinishedTrial]]


def _fronts(
    places: Mapping[HardwareRef | None, Sequence[Sequence[FinishedTrial]]],
    accuracy: str,
    expense: str,
) -> list[TradeOff]:
    """A front for each place and scope of energy, over all places first; none without a point."""
    aims: dict[str, Direction] = {accuracy: ACCURACIES[accuracy], expense: "minimize"}
    configs: dict[tuple[HardwareRef | None, str], _Configs] = {}
    for place, groups in places.items():
        for repeats in groups:
            scope = scope_of(repeats, (expense,))  # of several one: it is on no front
            configs.setdefault((place, scope), []).append(repeats)
    if len(places) > 1:
        over_all: dict[tuple[HardwareRef | None, str], _Configs] = {}
        for (_, scope), own in configs.items():
            over_all.setdefault((None, scope), []).extend(own)
        configs = {**over_all, **configs}
    found = [
        TradeOff(accuracy, expense, place, front_of(own, aims), scope)
        for (place, scope), own in configs.items()
    ]
    return [each for each in found if each.front.points]
