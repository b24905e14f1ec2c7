"""Learning curves: what each arm had learned after each epoch, and after how many seconds."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.statistics import Spread
from orchestrator.trial import Arm


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """After one epoch (from 1): the metric over trials, and their median seconds of training."""

    epoch: int
    seconds: float
    value: Spread


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """One arm's metric against epochs and seconds, over the matched rounds where there are any."""

    arm: Arm
    metric: str
    matched: bool
    trials: int
    points: tuple[LearningPoint, ...]
