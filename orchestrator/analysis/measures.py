"""The measures of a report: metrics, their units, derived ones, and trials that count."""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
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


_ROWS = json.loads(Path(__file__).with_name("measures.json").read_text(encoding="utf-8"))

MEASURES = tuple(Measure(*row) for row in _ROWS["measures"])
"""A trainer's first trial includes its start-up; the memory of later ones includes its own."""

EXPENSES = tuple(Measure(*row) for row in _ROWS["expenses"])
"""What a trial costs: the measures that are not of the workload itself."""

CONDITIONS = tuple(Measure(*row) for row in _ROWS["conditions"])
"""The use of devices and the state of the machine during a trial."""

LEAST: Mapping[str, str] = _ROWS["least"]
"""What the first arm of a ranking has, by metric; of times it is the fastest."""

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
