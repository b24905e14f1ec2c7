"""Accuracy against its cost (time, energy, money, memory): one Pareto front for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.arms.pareto import Front, front_of, group_by_config, scope_of
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
"""The accuracy is the first of these metrics that was measured."""

_FRESH_ONLY = ("peak_rss_mib", "peak_gpu_mib")

EXPENSES = ("train_s", "energy_j", "train_cost_usd", *_FRESH_ONLY)
"""The costs. Peak memory counts only if every trainer was fresh: else few configs have it."""


@dataclass(frozen=True, slots=True)
class TradeOff:
    """The front of one accuracy against one expense, on one hardware class or (None) over all.

    A front has energies of one `scope`. A config whose repeats have several is on none.
    """

    accuracy: str
    expense: str
    hardware: HardwareRef | None
    front: Front
    scope: str = ""


def trade_offs(trials: Sequence[FinishedTrial]) -> tuple[TradeOff, ...]:
    """Return the fronts of these trials: over all hardware first, if there are several classes.

    Arms timed in slices have no accuracy and are on none.

    Args:
        trials: those of arms that compute the same and do the same amount of work.
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
    for repeats in group_by_config(full):
        places.setdefault(repeats[0].arm.hardware_class, []).append(repeats)
    return tuple(
        trade_off
        for expense in EXPENSES
        if expense in measured
        for trade_off in _fronts(places, accuracy, expense)
    )


_Configs = list[Sequence[FinishedTrial]]


def _fronts(
    places: Mapping[HardwareRef | None, Sequence[Sequence[FinishedTrial]]],
    accuracy: str,
    expense: str,
) -> list[TradeOff]:
    """Return a front for each place and energy scope that has a point, over all places first."""
    objectives: dict[str, Direction] = {accuracy: ACCURACIES[accuracy], expense: "minimize"}
    configs: dict[tuple[HardwareRef | None, str], _Configs] = {}
    for place, groups in places.items():
        for repeats in groups:
            scope = scope_of(repeats, (expense,))  # any of several: the front excludes it
            configs.setdefault((place, scope), []).append(repeats)
    if len(places) > 1:
        over_all: dict[tuple[HardwareRef | None, str], _Configs] = {}
        for (_, scope), own in configs.items():
            over_all.setdefault((None, scope), []).extend(own)
        configs = {**over_all, **configs}
    candidates = [
        TradeOff(accuracy, expense, place, front_of(own, objectives), scope)
        for (place, scope), own in configs.items()
    ]
    return [trade_off for trade_off in candidates if trade_off.front.points]
