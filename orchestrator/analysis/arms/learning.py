"""Learning curves: the metrics of each arm after each epoch, with the seconds of training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from orchestrator.analysis.statistics.estimates import Spread, spread
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """The metric after one epoch (from 1), over blocks, and their median seconds of training.

    Seconds are of training without validation, from the first timed epoch.
    """

    epoch: int
    seconds: float
    value: Spread


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """One arm's metric against epochs and seconds, over the matched rounds if there are any.

    Repeats are averaged within their block first. A point is over the blocks that reached it.
    """

    arm: Arm
    metric: str
    matched: bool
    trials: int
    points: tuple[LearningPoint, ...]


def learning(
    used: Mapping[Arm, Sequence[FinishedTrial]], matched: Mapping[Arm, bool]
) -> tuple[LearningCurve, ...]:
    """Return a curve for each arm and metric of its epochs; arms timed in slices have none."""
    return tuple(
        curve
        for arm, trials in used.items()
        if arm.measure == "full"
        for curve in _curves(arm, trials, matched.get(arm, False))
    )


def _curves(arm: Arm, trials: Sequence[FinishedTrial], matched: bool) -> list[LearningCurve]:
    with_epochs = [trial for trial in trials if trial.epochs]
    seconds: dict[int, list[float]] = defaultdict(list)
    values: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in with_epochs:
        at_s = 0.0
        for epoch in trial.epochs:
            at_s += epoch.seconds
            seconds[epoch.index].append(at_s)
            for metric, value in epoch.metrics.items():
                if math.isfinite(value):
                    values[metric, epoch.index][trial.block].append(value)
    points: dict[str, list[LearningPoint]] = {}
    for metric, index in sorted(values):
        values_spread = spread([_mean(repeats) for repeats in values[metric, index].values()])
        assert values_spread is not None  # only finite values are kept
        point = LearningPoint(index + 1, median(seconds[index]), values_spread)
        points.setdefault(metric, []).append(point)
    return [
        LearningCurve(arm, metric, matched, len(with_epochs), tuple(own))
        for metric, own in points.items()
    ]


def _mean(values: Sequence[float]) -> float:
    return values[0] if len(values) == 1 else math.fsum(values) / len(values)
