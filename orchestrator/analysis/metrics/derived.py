"""Metrics derived from recorded ones, and the scopes of energy metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from orchestrator.analysis.metrics.measures import EXPENSES, SCOPED, Measure
from orchestrator.core.trial import FinishedTrial

_SCOPED = frozenset(SCOPED)


def value_of(trial: FinishedTrial, metric: str) -> float | None:
    """Return a trial's finite value of a metric, recorded or derived; None if it has none."""
    value = trial.metrics.get(metric)
    if value is None and metric in _DERIVED:
        value = _DERIVED[metric](trial)
    return value if value is not None and math.isfinite(value) else None


def finite(trials: Iterable[FinishedTrial], metric: str) -> list[float]:
    """Return the finite values of the trials that have one, in their order."""
    return [value for trial in trials if (value := value_of(trial, metric)) is not None]


def scopes_of(trials: Iterable[FinishedTrial], metrics: Collection[str] = SCOPED) -> frozenset[str]:
    """Return the scopes of the energies among these metrics, over complete trials.

    An energy that the workload itself reported has the scope "".
    """
    if _SCOPED.isdisjoint(metrics):  # the usual case, for every config of every front
        return frozenset()
    energies = _SCOPED.intersection(metrics)
    return frozenset(
        trial.telemetry.energy_scope or ""
        for trial in trials
        if trial.status == "complete" and not energies.isdisjoint(trial.metrics)
    )


def expenses_of(
    measures: Sequence[Measure], trials: Sequence[FinishedTrial]
) -> tuple[Measure, ...]:
    """Return the expenses that these trials have, and that are not among the measures."""
    present = {measure.metric for measure in measures}  # an objective may be one of them
    return tuple(
        expense
        for expense in EXPENSES
        if expense.metric not in present and finite(trials, expense.metric)
    )


def _epoch_s(trial: FinishedTrial) -> float | None:
    """Return the mean seconds of training alone in an epoch."""
    if not trial.epochs:
        return None
    return math.fsum(epoch.seconds for epoch in trial.epochs) / len(trial.epochs)


def _fit_s(trial: FinishedTrial) -> float | None:
    """Return the seconds of a user's `fit`: the timed epochs with the validation after each."""
    train_s = trial.metrics.get("train_s")
    return None if train_s is None else train_s + trial.metrics.get("validate_s", 0.0)


_DERIVED: Mapping[str, Callable[[FinishedTrial], float | None]] = {
    "epoch_s": _epoch_s,
    "fit_s": _fit_s,
}
