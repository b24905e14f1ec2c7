"""What follows from what trials recorded: figures of theirs, and what those are figures of."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from orchestrator.analysis.metrics.measures import SCOPED
from orchestrator.core.trial import FinishedTrial

_SCOPED = frozenset(SCOPED)


def value_of(trial: FinishedTrial, metric: str) -> float | None:
    """A trial's finite value of a metric, recorded or derived; None where it has none."""
    found = trial.metrics.get(metric)
    if found is None and metric in _DERIVED:
        found = _DERIVED[metric](trial)
    return found if found is not None and math.isfinite(found) else None


def finite(trials: Iterable[FinishedTrial], metric: str) -> list[float]:
    """The values of the trials that have a finite one, in their order."""
    return [value for trial in trials if (value := value_of(trial, metric)) is not None]


def scopes_of(trials: Iterable[FinishedTrial], metrics: Collection[str] = SCOPED) -> frozenset[str]:
    """What the energies among these metrics are that of, over complete trials.

    Empty where they have none of them. An energy that a workload told itself has no scope: "".
    """
    if _SCOPED.isdisjoint(metrics):  # as a rule: asked of every config, front by front
        return frozenset()
    energies = _SCOPED.intersection(metrics)
    return frozenset(
        trial.telemetry.energy_scope or ""
        for trial in trials
        if trial.status == "complete" and not energies.isdisjoint(trial.metrics)
    )


def _epoch_s(trial: FinishedTrial) -> float | None:
    """Mean seconds of training alone in an epoch; a slice is none."""
    if not trial.epochs or trial.arm.measure == "timing":
        return None
    return math.fsum(each.seconds for each in trial.epochs) / len(trial.epochs)


def _fit_s(trial: FinishedTrial) -> float | None:
    """What a user's `fit` takes: the timed epochs with the validation after each."""
    train_s = trial.metrics.get("train_s")
    return None if train_s is None else train_s + trial.metrics.get("validate_s", 0.0)


_DERIVED: Mapping[str, Callable[[FinishedTrial], float | None]] = {
    "epoch_s": _epoch_s,
    "fit_s": _fit_s,
}
