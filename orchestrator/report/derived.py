"""Figures that no trial recorded as such, and that follow from what it did record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from orchestrator.report.measures import Measure
from orchestrator.report.records import TrialRecord
from orchestrator.selector import measure_of

EXPENSES = (
    Measure("epoch_s", "epoch", "s"),
    Measure("fit_s", "fit", "s"),
    Measure("energy_j", "energy", "J"),
    Measure("energy_per_sample_j", "energy a sample", "mJ", per=1e-3),
    Measure("train_cost_usd", "cost of the timed epochs", "USD"),
    Measure("cost_usd", "cost of a trial", "USD"),
)
"""What the matrix tells of an arm beside its measures."""


def value_of(trial: TrialRecord, metric: str) -> float | None:
    """A trial's finite value of a metric, recorded or derived; None where it has none."""
    found = trial.metrics.get(metric)
    if found is None and metric in _DERIVED:
        found = _DERIVED[metric](trial)
    return found if found is not None and math.isfinite(found) else None


def _epoch_s(trial: TrialRecord) -> float | None:
    """Mean seconds of training alone in an epoch; a slice is none."""
    if not trial.epochs or measure_of(trial.arm) == "timing":
        return None
    return math.fsum(each.seconds for each in trial.epochs) / len(trial.epochs)


def _fit_s(trial: TrialRecord) -> float | None:
    """What a user's `fit` takes: the timed epochs with the validation after each."""
    train_s = trial.metrics.get("train_s")
    return None if train_s is None else train_s + trial.metrics.get("validate_s", 0.0)


_DERIVED: Mapping[str, Callable[[TrialRecord], float | None]] = {
    "epoch_s": _epoch_s,
    "fit_s": _fit_s,
}
