"""Single arms over time: learning curves, phases of trials, and telemetry of a typical trial."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from orchestrator.analysis.measures import TIMES, by_arm, finite, value_of
from orchestrator.analysis.statistics.estimates import Spread, spread
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, Telemetry

PHASES = (
    *("queue_s", "setup_s", "import_s", "load_s", "compile_s", "train_s", "timed_s"),
    *("validate_s", "evaluate_s", "predict_s"),
)
"""The phases in their order; `timed_s` is the time of slices."""


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


@dataclass(frozen=True, slots=True)
class TelemetryCurves:
    """The telemetry of one trial: for each curve (`system/…`) a value or None at each of `at_s`."""

    arm: Arm
    block: int
    run_id: str
    at_s: tuple[float, ...]
    curves: Mapping[str, tuple[float | None, ...]]


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
    seconds: dict[int, list[float]] = defaultdict(list)
    values: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        at_s = 0.0
        for epoch in trial.epochs:
            at_s += epoch.seconds
            seconds[epoch.index].append(at_s)
            for metric, value in epoch.metrics.items():
                if math.isfinite(value):
                    values[metric, epoch.index][trial.block].append(value)
    points: dict[str, list[LearningPoint]] = {}
    for metric, index in sorted(values):
        over_blocks = spread([fmean(repeats) for repeats in values[metric, index].values()])
        assert over_blocks is not None  # of finite values
        point = LearningPoint(index + 1, median(seconds[index]), over_blocks)
        points.setdefault(metric, []).append(point)
    count = sum(bool(trial.epochs) for trial in trials)
    return [
        LearningCurve(arm, metric, matched, count, tuple(own)) for metric, own in points.items()
    ]


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


def representatives(record: SweepRecord) -> tuple[str, ...]:
    """Return the run id of each arm's complete trial of median time, from undisturbed ones if any.

    The median of the arm's own trials is typical of it.
    """
    own = by_arm(record).values()
    complete = ([trial for trial in trials if trial.status == "complete"] for trials in own)
    return tuple(_typical(trials).run_id for trials in complete if trials)


def telemetry_curves(
    trials: Sequence[FinishedTrial], curves: Mapping[str, Telemetry]
) -> tuple[TelemetryCurves, ...]:
    """Return the telemetry that was read, in the order in which arms first occur in the trials."""
    order = {arm: place for place, arm in enumerate(dict.fromkeys(trial.arm for trial in trials))}
    read = (
        TelemetryCurves(trial.arm, trial.block, trial.run_id, telemetry.at_s, telemetry.curves)
        for trial in trials
        if (telemetry := curves.get(trial.run_id)) is not None and telemetry.curves
    )
    return tuple(sorted(read, key=lambda one: order[one.arm]))


def _typical(trials: Sequence[FinishedTrial]) -> FinishedTrial:
    def place(trial: FinishedTrial) -> tuple[float, int, int]:
        times = (value_of(trial, metric) for metric in reversed(TIMES))
        seconds = next((time for time in times if time is not None), math.inf)
        return seconds, trial.block, trial.repeat

    quiet = [trial for trial in trials if not trial.disturbance] or trials
    return sorted(quiet, key=place)[(len(quiet) - 1) // 2]
