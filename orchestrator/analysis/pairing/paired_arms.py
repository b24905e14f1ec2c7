"""The times and accuracies of every arm, and of pairs of arms, block by block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.analysis.metrics.measures import TIMES
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Disturbance
from orchestrator.analysis.pairing.pairs import (
    Pair,
    RoundValues,
    TimedPairs,
    arithmetic,
    geometric,
    pairs,
    round_values,
    timed_pairs,
)
from orchestrator.analysis.statistics.estimates import CONFIDENCE, Estimate, exponential, t_interval
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial

_PER_STEP = ("step_ms",)
"""The time metrics that do not grow with the amount of work."""


@dataclass(frozen=True, slots=True)
class PairedArms:
    """The pairs of blocks of two arms: their times and their accuracies.

    `disturbed` has the disturbance of each disturbed block. With `quiet_only` the times are over
    undisturbed rounds alone. `not_interleaved` counts the rounds excluded because the arms should
    have been interleaved and were not. `disturbance_reason` is the reason why the times permit no
    verdict although there are enough blocks.
    """

    times: tuple[Pair, ...]
    accuracies: tuple[Pair, ...]
    disturbed: Mapping[int, Disturbance]
    quiet_only: bool
    not_interleaved: int = 0
    disturbance_reason: str | None = None

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the baseline's time over the arm's, for each block."""
        return [math.log(pair.baseline) - math.log(pair.arm) for pair in self.times]

    @property
    def verdict_log_ratios(self) -> list[float]:
        """The log-ratios for a verdict: none if too many blocks were disturbed."""
        return [] if self.disturbance_reason else self.log_ratios

    @property
    def differences(self) -> list[float]:
        """The arm's accuracy minus the baseline's, for each block."""
        return [pair.arm - pair.baseline for pair in self.accuracies]

    def ratio(self, confidence: float = CONFIDENCE) -> Estimate | None:
        """Return the geometric mean ratio of times; None for fewer than two blocks."""
        logs = t_interval(self.log_ratios, confidence)
        return exponential(logs) if logs else None

    @property
    def difference(self) -> Estimate | None:
        """The mean difference of accuracies; None for fewer than two blocks."""
        return t_interval(self.differences)


def time_metric(matched: CompleteRounds) -> str | None:
    """Return the metric of speed-ups: the first of `TIMES` that at least two arms measured.

    The arms of a block share the batch size, so that ratios of `step_ms` are ratios per sample.
    """
    for metric in TIMES:
        are_measured = [
            any(_positive(t.metrics.get(metric)) for ts in rounds.values() for t in ts)
            for rounds in matched.trials.values()
        ]
        if sum(are_measured) >= 2:
            return metric
    return None


@dataclass(frozen=True, slots=True)
class ArmValues:
    """The times and accuracies of every arm, by complete round."""

    metric: str | None
    times: Mapping[Arm, RoundValues]
    accuracies: Mapping[Arm, RoundValues]
    rounds: CompleteRounds


def arm_values(matched: CompleteRounds, metric: str | None) -> ArmValues:
    """Return every arm's values of a time metric, and of `val_accuracy`."""

    def time_of(trial: FinishedTrial) -> float | None:
        value = trial.metrics.get(metric) if metric else None
        return value if _positive(value) else None

    def accuracy_of(trial: FinishedTrial) -> float | None:
        value = trial.metrics.get("val_accuracy")
        return value if value is not None and math.isfinite(value) else None

    def run_of(trial: FinishedTrial) -> str:
        return trial.run_id

    arms = matched.trials.items()
    return ArmValues(
        metric,
        {arm: round_values(rounds, time_of, run_of, geometric) for arm, rounds in arms},
        {arm: round_values(rounds, accuracy_of, run_of, arithmetic) for arm, rounds in arms},
        matched,
    )


def pair_up(values: ArmValues, arm: Arm, base: Arm) -> PairedArms:
    """Pair the blocks' times and accuracies of two arms.

    Between arms with different amounts of work, or different measuring modes, only times per step
    are compared. Accuracies are compared only between whole trainings of equal work. Times are over
    the undisturbed rounds if at least `MIN_BLOCKS` blocks have one, else over all rounds; then they
    permit no verdict if more than a third of the blocks are disturbed. Accuracies are always over
    all rounds, since a disturbance does not change them.
    """
    modes = {arm.measure, base.measure}
    is_equal_work = arm.work == base.work
    excluded = values.rounds.not_interleaved((arm, base))
    times = TimedPairs()
    if (is_equal_work and len(modes) == 1) or values.metric in _PER_STEP:
        disturbances = values.rounds.disturbances
        times = timed_pairs(values.times, disturbances, arm, base, excluded.__contains__)
    is_whole = is_equal_work and modes == {"full"}
    accuracies = pairs(values.accuracies, arm, base, arithmetic) if is_whole else ()
    return PairedArms(
        times.pairs,
        accuracies,
        times.disturbed,
        times.quiet_only,
        len(excluded),
        times.disturbance_reason,
    )


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
