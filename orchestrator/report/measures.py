"""What a report tells of each arm: which metrics, their units, and which trials count for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.report.records import SweepRecord, TrialRecord

Trainer = Literal["any", "warm", "fresh"]
"""Which trials are comparable: all, all but a trainer's first, or a trainer's first only."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of the report."""

    metric: str
    label: str
    unit: str
    trainer: Trainer = "any"

    @property
    def title(self) -> str:
        """`step (ms)`: the label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def counts(self, trial: TrialRecord) -> bool:
        """Whether the trial's trainer process makes its value comparable."""
        fresh = trial.trainer_trials == 0
        return self.trainer == "any" or fresh == (self.trainer == "fresh")


MEASURES = (
    Measure("step_ms", "step", "ms"),
    Measure("samples_per_s", "rate", "samples/s"),
    Measure("train_s", "train", "s"),
    Measure("val_accuracy", "val_accuracy", ""),
    Measure("evaluate_s", "evaluate", "s"),
    Measure("predict_s", "predict", "s"),
    # A trainer's first trial pays for its start; after it, memory keeps what came before.
    Measure("load_s", "load", "s", "warm"),
    Measure("compile_s", "compile", "s", "warm"),
    Measure("peak_rss_mib", "peak memory", "MiB", "fresh"),
    Measure("peak_gpu_mib", "peak GPU memory", "MiB", "fresh"),
)

TIMES = ("step_ms", "train_s")
"""What speed-ups are told by: the first of these that at least two arms measured."""


def measures_of(record: SweepRecord) -> tuple[Measure, ...]:
    """The measures that a complete trial has, and the objectives that are none of ours."""
    recorded = {m for t in record.trials if t.status == "complete" for m in t.metrics}
    known = {measure.metric for measure in MEASURES}
    own = tuple(Measure(name, name, "") for name in record.objectives if name in recorded - known)
    return tuple(m for m in MEASURES if m.metric in recorded) + own
