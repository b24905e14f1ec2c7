"""The metrics that a report shows of a sweep, derived ones, and the trials that count for them.

The metrics themselves are in `workloads.metrics`.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from workloads.metrics import (
    METRICS,
    WITH_ENERGY_SCOPE,
    ComparableOver,
    Metric,
    ReportTable,
    find_metric,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric as the report has it; `per` of the metric's recorded unit are one `unit`.

    `trainer` tells which trials are comparable by their trainer process.
    """

    metric: str
    label: str
    unit: str
    trainer: ComparableOver = "any"
    per: float = 1.0

    @property
    def title(self) -> str:
        """`step (ms)`: the label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def counts(self, trial: FinishedTrial) -> bool:
        """Return True if the trial's trainer process makes its value comparable."""
        fresh = trial.trainer_trials == 0
        return self.trainer in ("any", "alike") or fresh == (self.trainer == "fresh")


def measure_of(metric: Metric) -> Measure:
    """Return a metric of the registry as the report has it."""
    label = metric.label or metric.name
    return Measure(
        metric.name, label, metric.unit, metric.comparable_over, metric.recorded_per_unit
    )


def _measures_in(table: ReportTable) -> tuple[Measure, ...]:
    return tuple(measure_of(metric) for metric in METRICS if table in metric.reported_in)


MEASURES = _measures_in("measures")
"""What arms achieve. A first trial of a trainer includes its start-up; the memory of later trials
includes the memory of earlier ones."""

EXPENSES = _measures_in("expenses")
"""What a trial costs: the measures that are not of the workload itself."""

CONDITIONS = _measures_in("telemetry")
"""The use of devices and the state of the machine during a trial."""

PER_STEP = ("sample_us", "step_ms", "predict_sample_us", "predict_ms")
"""Times that do not depend on the amount of work."""

TIMES = ("step_ms", "predict_ms", "train_s")
"""The metrics of speed-ups: the first of these that at least two arms measured is used."""


def measures_of(record: SweepRecord) -> tuple[Measure, ...]:
    """Return the measures that a complete trial has, and the objectives that are not among them.

    If every trial had a fresh trainer, all trials count for all measures.
    """
    complete = [trial for trial in record.trials if trial.status == "complete"]
    recorded = {metric for trial in complete for metric in trial.metrics}
    recorded |= {
        name for name in DERIVED if any(value_of(trial, name) is not None for trial in complete)
    }
    standard = tuple(measure for measure in MEASURES if measure.metric in recorded)
    names = {measure.metric for measure in standard}
    measures = standard + tuple(
        measure_of(find_metric(name))
        for name in record.objectives
        if name in recorded and name not in names
    )
    if all(trial.trainer_trials == 0 for trial in complete):
        return tuple(replace(measure, trainer="any") for measure in measures)
    return measures


def by_arm(record: SweepRecord) -> dict[Arm, list[FinishedTrial]]:
    """Return the trials of every arm by block: the sweep's arms first, then arms of old starts."""
    extra = sorted({trial.arm for trial in record.trials} - set(record.arms))
    trials_of: dict[Arm, list[FinishedTrial]] = {arm: [] for arm in (*record.arms, *extra)}
    for trial in sorted(record.trials, key=lambda t: (t.block, t.repeat, t.key)):
        trials_of[trial.arm].append(trial)
    return trials_of


def _mean_epoch_s(trial: FinishedTrial) -> float | None:
    """Return the mean seconds of the training of an epoch, without validation."""
    return fmean(epoch.seconds for epoch in trial.epochs) if trial.epochs else None


def _fit_s(trial: FinishedTrial) -> float | None:
    """Return the seconds of the timed epochs with their validation."""
    train_s = trial.metrics.get("train_s")
    return None if train_s is None else train_s + trial.metrics.get("validate_s", 0.0)


def _whole_train_s(trial: FinishedTrial) -> float | None:
    """Return the seconds of compiling and of the timed epochs together."""
    train_s, compile_s = trial.metrics.get("train_s"), trial.metrics.get("compile_s")
    return None if train_s is None or compile_s is None else compile_s + train_s


DERIVED: Mapping[str, Callable[[FinishedTrial], float | None]] = {
    "epoch_s": _mean_epoch_s,
    "fit_s": _fit_s,
    "whole_train_s": _whole_train_s,
}
"""How the metrics that only the report has are computed: those that are `measured_by` it."""


def value_of(trial: FinishedTrial, metric: str) -> float | None:
    """Return a trial's finite value of a metric, recorded or derived; None if it has none."""
    value = trial.metrics.get(metric)
    if value is None and metric in DERIVED:
        value = DERIVED[metric](trial)
    return value if value is not None and math.isfinite(value) else None


def finite(trials: Iterable[FinishedTrial], metric: str) -> list[float]:
    """Return the finite values of the trials that have one, in their order."""
    return [value for trial in trials if (value := value_of(trial, metric)) is not None]


def scopes_of(
    trials: Iterable[FinishedTrial], metrics: Collection[str] = WITH_ENERGY_SCOPE
) -> frozenset[str]:
    """Return the scopes of the energies among these metrics, over complete trials.

    An energy that the workload itself reported has the scope "".
    """
    energies = WITH_ENERGY_SCOPE.intersection(metrics)
    if not energies:  # the usual case, for every config of every front
        return frozenset()
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
