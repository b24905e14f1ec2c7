"""What was measured of every arm, and of two of them side by side: times and accuracies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.analysis.metrics.measures import TIMES
from orchestrator.analysis.pairing.complete_rounds import Disturbance, Matched
from orchestrator.analysis.pairing.pairs import (
    ByRound,
    Pair,
    Timed,
    arithmetic,
    by_round,
    geometric,
    pairs,
    timed_pairs,
)
from orchestrator.analysis.statistics.estimates import CONFIDENCE, Estimate, exponential, t_interval
from orchestrator.core.trial import Arm, FinishedTrial

_WHATEVER_WORK = ("step_ms",)
"""Of the times that speed is told by, those that do not grow with the amount of work."""


@dataclass(frozen=True, slots=True)
class Paired:
    """What was measured of two arms, block by block.

    `times` and `accuracies` are the pairs of blocks. `disturbed` says for each block in which a
    side's timing was disturbed by what; `quiet_only` that such rounds are left out of `times`;
    `torn` in how many rounds two arms that should have taken turns did not: these are left out;
    `disturbance_reason` why the times tell nothing although there are enough, and is empty as a
    rule.
    """

    times: tuple[Pair, ...]
    accuracies: tuple[Pair, ...]
    disturbed: Mapping[int, Disturbance]
    quiet_only: bool
    torn: int = 0
    disturbance_reason: str | None = None

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the baseline's time over the arm's, a block each."""
        return [math.log(pair.baseline) - math.log(pair.arm) for pair in self.times]

    @property
    def telling(self) -> list[float]:
        """The log-ratios that a verdict may be read from: none where there is doubt."""
        return [] if self.disturbance_reason else self.log_ratios

    @property
    def differences(self) -> list[float]:
        """The arm's accuracy minus the baseline's, a block each."""
        return [pair.arm - pair.baseline for pair in self.accuracies]

    def ratio(self, confidence: float = CONFIDENCE) -> Estimate | None:
        """The geometric mean ratio of times; None for fewer than two blocks."""
        logs = t_interval(self.log_ratios, confidence)
        return exponential(logs) if logs else None

    @property
    def difference(self) -> Estimate | None:
        """The mean difference of accuracies; None for fewer than two blocks."""
        return t_interval(self.differences)


def time_metric(matched: Matched) -> str | None:
    """What speed-ups are told by: the first of `TIMES` that at least two arms measured.

    `step_ms` is training time per sample but for the batch size, which the arms of a block
    share, so that the ratio is the same.
    """
    for metric in TIMES:
        measured = [
            any(_positive(t.metrics.get(metric)) for ts in rounds.values() for t in ts)
            for rounds in matched.trials.values()
        ]
        if sum(measured) >= 2:
            return metric
    return None


@dataclass(frozen=True, slots=True)
class Measured:
    """The times and accuracies of every arm, by complete round: what is paired again and again.

    `matched` has those rounds, and knows which of them were disturbed, or torn.
    """

    metric: str | None
    times: Mapping[Arm, ByRound]
    accuracies: Mapping[Arm, ByRound]
    matched: Matched


def measured(matched: Matched, metric: str | None) -> Measured:
    """Every arm's values of a time metric, and its `val_accuracy`."""

    def time_of(trial: FinishedTrial) -> float | None:
        found = trial.metrics.get(metric) if metric else None
        return found if _positive(found) else None

    def accuracy_of(trial: FinishedTrial) -> float | None:
        found = trial.metrics.get("val_accuracy")
        return found if found is not None and math.isfinite(found) else None

    def run_of(trial: FinishedTrial) -> str:
        return trial.run_id

    arms = matched.trials.items()
    return Measured(
        metric,
        {arm: by_round(rounds, time_of, run_of, geometric) for arm, rounds in arms},
        {arm: by_round(rounds, accuracy_of, run_of, arithmetic) for arm, rounds in arms},
        matched,
    )


def pair_up(found: Measured, arm: Arm, base: Arm) -> Paired:
    """The blocks' times and accuracies on both sides.

    Between arms that did unlike amounts of work, or one of which was timed in slices, only times
    per step are compared; accuracies only between whole trainings of equal work. Rounds in which
    neither side's timing was disturbed are enough where `MIN_BLOCKS` blocks have one, else all are
    taken; where more than a third of the blocks are disturbed then, there is doubt. What a
    disturbance slows is no less accurate for it.
    """
    modes = {arm.measure, base.measure}
    alike = arm.work == base.work
    comparable = (alike and len(modes) == 1) or found.metric in _WHATEVER_WORK
    torn = found.matched.torn((arm, base))
    noisy = found.matched.disturbed
    timed = timed_pairs(found.times, noisy, arm, base, torn.__contains__) if comparable else Timed()
    whole = alike and modes == {"full"}
    accuracies = pairs(found.accuracies, arm, base, arithmetic) if whole else ()
    return Paired(
        timed.pairs,
        accuracies,
        timed.disturbed,
        timed.quiet_only,
        len(torn),
        timed.disturbance_reason,
    )


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
