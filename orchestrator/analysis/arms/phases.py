"""What a trial's time went on: the phases of each arm, from the queue to the predictions."""

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
"""In the order in which a trial goes through them; `timed_s` is that of its slices."""


@dataclass(frozen=True, slots=True)
class PhaseSplit:
    """Mean seconds of each phase (of `PHASES`, those measured) over an arm's complete trials.

    Means, so that they add up. A phase that a trial did not have took it no time: only a trainer's
    first trial imports. Trials that took turns have no queue: while they wait their rivals are at
    work, whose phases stand with them.
    """

    arm: Arm
    trials: int
    seconds: Mapping[str, float]


def phases(own: Mapping[Arm, Sequence[FinishedTrial]]) -> tuple[PhaseSplit, ...]:
    """The split of every arm that has a complete trial."""
    found = []
    for arm, trials in own.items():
        complete = [trial for trial in trials if trial.status == "complete"]
        seconds = {
            phase: math.fsum(told) / len(complete)
            for phase in PHASES
            if not (phase == "queue_s" and arm.measure == "timing")
            and (told := finite(complete, phase))
        }
        if seconds:
            found.append(PhaseSplit(arm, len(complete), seconds))
    return tuple(found)
