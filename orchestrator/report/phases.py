"""What a trial's time went on: the phases of each arm, from the queue to the predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.trial import Arm

PHASES = (
    "queue_s",
    "setup_s",
    "import_s",
    "load_s",
    "compile_s",
    "train_s",
    "validate_s",
    "evaluate_s",
    "predict_s",
)
"""In the order in which a trial goes through them."""


@dataclass(frozen=True, slots=True)
class PhaseSplit:
    """Mean seconds of each phase (of `PHASES`, those measured) over an arm's complete trials."""

    arm: Arm
    trials: int
    seconds: Mapping[str, float]
