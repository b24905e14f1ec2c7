"""The measures of a report: metrics, their units, derived ones, and trials that count."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial

Trainer = Literal["any", "warm", "fresh"]
"""Which trials are comparable: all, all but a trainer's first, or a trainer's first only."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of the report; `per` of the metric's own unit are one `unit`."""

    metric: str
    label: str
    unit: str
    trainer: Trainer = "any"
    per: float = 1.0

    @property
    def title(self) -> str:
        """`step (ms)`: the label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def counts(self, trial: FinishedTrial) -> bool:
        """Return True if the trial's trainer process makes its value comparable."""
        fresh = trial.trainer_trials == 0
        return self.trainer == "any" or fresh == (self.trainer == "fresh")


MEASURES = (
    Measure("step_ms", "step", "ms"),
    Measure("step_ms_median", "median step", "ms"),
    Measure("step_ms_p95", "p95 step", "ms"),
    Measure("forward_ms", "forward", "ms"),
    Measure("sample_us", "sample", "µs"),
    Measure("samples_per_s", "rate", "samples/s"),
    Measure("model_flops_per_s", "model rate", "GFLOP/s", per=1e9),
    Measure("model_flops_utilization_pct", "of the device's peak", "%"),
    Measure("train_s", "train", "s"),
    Measure("validate_s", "validate", "s"),
    Measure("time_to_accuracy_s", "time to accuracy", "s"),
    Measure("loss", "loss", ""),
    Measure("accuracy", "accuracy", ""),
    Measure("val_loss", "val_loss", ""),
    Measure("val_accuracy", "val_accuracy", ""),
    Measure("bits_per_char", "bits_per_char", ""),
    Measure("val_bits_per_char", "val_bits_per_char", ""),
    Measure("evaluate_s", "evaluate", "s"),
    Measure("predict_s", "predict", "s"),
    Measure("predict_sample_ms", "predict one", "ms"),
    Measure("mean_gpu_utilization_pct", "GPU busy", "%"),
    Measure("max_temperature_c", "hottest", "°C"),
    # A trainer's first trial includes its start-up; the memory of later ones includes its own.
    Measure("load_s", "load", "s", "warm"),
    Measure("compile_s", "compile", "s", "warm"),
    Measure("peak_rss_mib", "peak memory", "MiB", "fresh"),
    Measure("peak_gpu_mib", "peak GPU memory", "MiB", "fresh"),
)

EXPENSES = (
    Measure("epoch_s", "epoch", "s"),
    Measure("fit_s", "fit", "s"),
    Measure("energy_j", "energy", "J"),
    Measure("energy_gpu_j", "energy of the GPUs", "J"),
    Measure("mean_power_w", "power", "W"),
    Measure("energy_per_sample_j", "energy per sample", "mJ", per=1e-3),
    Measure("train_cost_usd", "cost of the timed epochs", "USD"),
    Measure("cost_usd", "cost per trial", "USD"),
)
"""What a trial costs: the measures that are not of the workload itself."""

FRESH_ONLY = tuple(measure.metric for measure in MEASURES if measure.trainer == "fresh")

SCOPED = frozenset({"energy_j", "energy_per_sample_j", "mean_power_w"})
"""The metrics with an `energy_scope`: values of different scopes are not comparable."""

PER_STEP = ("sample_us", "step_ms")
"""Times that do not depend on the amount of work."""

TIMES = ("step_ms", "train_s")
"""The metrics of speed-ups: the first of these that at least two arms measured is used."""


def measures_of(record: SweepRecord) -> tuple[Measure, ...]:
    """Return the measures that a complete trial has, and the objectives that are not among them.

    If every trial had a fresh trainer, all trials count for all measures.
    """
    complete = [trial for trial in record.trials if trial.status == "complete"]
    recorded = {metric for trial in complete for metric in trial.metrics}
    standard = {measure.metric for measure in MEASURES}
    expenses = {measure.metric: measure for measure in EXPENSES}
    own = tuple(
        expenses.get(name, Measure(name, name, ""))
        for name in record.objectives
        if name in recorded - standard
    )
    measures = tuple(measure for measure in MEASURES if measure.metric in recorded) + own
    if all(trial.trainer_trials == 0 for trial in complete):
        return tuple(replace(measure, trainer="any") for measure in measures)
    return measures


def by_arm(record: SweepRecord) -> dict[Arm, list[FinishedTrial]]:
    """Return the trials of every arm by block: the sweep's arms first, then those of old starts."""
    extra = sorted({trial.arm for trial in record.trials} - set(record.arms))
    own: dict[Arm, list[FinishedTrial]] = {arm: [] for arm in (*record.arms, *extra)}
    for trial in sorted(record.trials, key=lambda t: (t.block, t.repeat, t.key)):
        own[trial.arm].append(trial)
    return own


def value_of(trial: FinishedTrial, metric: str) -> float | None:
    """Return a trial's finite value of a metric, recorded or derived; None if it has none."""
    value = trial.metrics.get(metric)
    if value is None and metric == "epoch_s" and trial.epochs:  # training alone
        value = fmean(epoch.seconds for epoch in trial.epochs)
    if value is None and metric == "fit_s" and "train_s" in trial.metrics:  # with validation
        value = trial.metrics["train_s"] + trial.metrics.get("validate_s", 0.0)
    return value if value is not None and math.isfinite(value) else None


def finite(trials: Iterable[FinishedTrial], metric: str) -> list[float]:
    """Return the finite values of the trials that have one, in their order."""
    return [value for trial in trials if (value := value_of(trial, metric)) is not None]


def scopes_of(trials: Iterable[FinishedTrial], metrics: Collection[str] = SCOPED) -> frozenset[str]:
    """Return the scopes of the energies among these metrics, over complete trials.

    An energy that the workload itself reported has the scope "".
    """
    energies = SCOPED.intersection(metrics)
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


def representatives(record: SweepRecord) -> tuple[str, ...]:
    """Return the run id of each arm's complete trial of median time, from undisturbed ones if any.

    The median of the arm's own trials is typical of it.
    """
    own = by_arm(record).values()
    complete = ([trial for trial in trials if trial.status == "complete"] for trials in own)
    return tuple(_typical(trials).run_id for trials in complete if trials)


def _typical(trials: Sequence[FinishedTrial]) -> FinishedTrial:
    def place(trial: FinishedTrial) -> tuple[float, int, int]:
        times = (value_of(trial, metric) for metric in reversed(TIMES))
        seconds = next((time for time in times if time is not None), math.inf)
        return seconds, trial.block, trial.repeat

    quiet = [trial for trial in trials if not trial.disturbance] or trials
    return sorted(quiet, key=place)[(len(quiet) - 1) // 2]
