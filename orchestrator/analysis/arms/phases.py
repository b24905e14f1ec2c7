"""The time of each phase of a trial, from the queue to the predictions, by arm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.metrics.derived import finite
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial

PHASES = (
    "queue_s",
    "setup_s",
    "import_s",
    "load_s",
    "compile_s",
    "train_s",
    "timed_s",
    "validate_s",
    "evaluate_s",
    "predict_s",
)
"""The phases in their order; `timed_s` is the time of slices."""


@dataclass(frozen=True, slots=True)
class PhaseSplit:
    """Mean seconds of each phase (of `PHASES`, those measured) over an arm's complete trials.

    Means, because they add up. A phase that a trial did not have counts as no time: only a
    trainer's first trial imports. Interleaved trials have no queue: while they wait, another arm of
    their round runs.
    """

    arm: Arm
    trials: int
    seconds: Mapping[str, float]


def phases(own: Mapping[Arm, Sequence[FinishedTrial]]) -> tuple[PhaseSplit, ...]:
    """Return the split of every arm that has a complete trial."""
    splits = []
    for arm, trials in own.items():
        complete = [trial for trial in trials if trial.status == "complete"]
        seconds = {
            phase: math.fsum(values) / len(complete)
            for phase in PHASES
            if not (phase == "queue_s" and arm.measure == "timing")
            and (values := finite(complete, phase))
        }
        if seconds:
            splits.append(PhaseSplit(arm, len(complete), seconds))
    return tuple(splits)
