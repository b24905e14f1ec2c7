"""Comparison of what training achieved on each arm with its baseline, block by block.

The arms of one metric are one family: the more there are, the wider each interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, ended_rounds
from orchestrator.analysis.pairing.margins import Widened, judged_margin
from orchestrator.analysis.pairing.pairs import PairedResults, pair_results
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics import verdicts
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.verdicts import BlocksNeeded, Conclusion, Judgement
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.text import counted

ResultVerdict = Literal["equal", "better", "worse", "inconclusive"]

_VERDICTS: Mapping[Direction, Mapping[Conclusion, ResultVerdict]] = {
    "maximize": {"same": "equal", "more": "better", "less": "worse"},
    "minimize": {"same": "equal", "more": "worse", "less": "better"},
}
_ROUNDING_OF_MARGIN = 1e-4
"""A difference below this share of the margin is the rounding of float32, and reads as none."""

_SIDES = ("its", "the baseline's")
_UNSPOILED: tuple[ResultVerdict, ResultVerdict] = ("worse", "better")
"""The verdict that a divergence of this side, or of the baseline, does not contradict."""


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """The mean over blocks of the arm's value of a metric minus the baseline's.

    The arm is better with more of it, or with less, by `direction`. `difference` has the plain 95 %
    interval; the verdict follows from `corrected`, which is None for fewer than `MIN_BLOCKS`
    blocks: `equal` is wholly within the margin, which is in the metric's unit. `share` is the
    margin as a share of the baseline's mean, if the spec (or the default) gives it so. `p_value`
    (of no difference) is adjusted for the other comparisons by this metric. `widened` tells to what
    the margin of an accuracy was widened, and `validation_samples` of how many samples it is the
    share that is predicted rightly; None for other metrics. `diverged` and
    `baseline_diverged` count blocks in which only that side's training diverged. `reason` explains
    an `inconclusive` verdict. With `constant_difference` all blocks have the same difference, which
    is not 0: the interval has no width, and noise that all arms of a block share is not measured.
    """

    metric: str
    direction: Direction
    difference: Estimate
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    verdict: ResultVerdict
    margin: float
    share: float | None
    blocks_needed: BlocksNeeded | None
    widened: Widened | None
    validation_samples: int | None
    diverged: int
    baseline_diverged: int
    reason: str | None
    constant_difference: bool

    @property
    def shown(self) -> Estimate:
        """The difference with the interval that decides the verdict, without rounding errors."""
        shown, least = self.corrected or self.difference, _ROUNDING_OF_MARGIN * self.margin
        value, low, high = (
            0.0 if abs(end) < least else end for end in (shown.value, shown.low, shown.high)
        )
        return replace(shown, value=value, low=low, high=high)


def compare_results(
    record: SweepRecord, matched: CompleteRounds, sides: Sequence[tuple[Arm, Arm | None]]
) -> Mapping[Arm, tuple[ResultComparison, ...]]:
    """Compare each arm with its baseline by every result of the sweep, as far as both have it."""
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    measured = {metric for trial in every for metric in trial.metrics}
    comparisons: dict[Arm, tuple[ResultComparison, ...]] = {}
    for metric, direction in result_metrics(record, measured).items():
        for arm, comparison in _compare(record, matched, sides, metric, direction).items():
            comparisons[arm] = (*comparisons.get(arm, ()), comparison)
    return comparisons


def _compare(
    record: SweepRecord,
    matched: CompleteRounds,
    sides: Sequence[tuple[Arm, Arm | None]],
    metric: str,
    direction: Direction,
) -> dict[Arm, ResultComparison]:
    """Compare all arms by one metric, as one family."""
    paired = [
        pair_results(matched, arm, base, metric) if base else PairedResults() for arm, base in sides
    ]
    baselines = [pair.baseline for of_arm in paired for pair in of_arm.pairs]
    margin = judged_margin(record, matched, metric, fmean(baselines) if baselines else 0.0)
    judgements = verdicts.judge([of_arm.differences for of_arm in paired], margin.value)
    complete, broken = ended_rounds(record)

    def lost_blocks(arm: Arm, compared: Arm) -> int:
        """Count the blocks in which the arm diverged in a round that the other one completed."""
        rounds = broken.get(arm, set()) & complete.get(compared, set())
        return len({block for block, _ in rounds})

    comparisons = {}
    for (arm, base), of_arm, judgement in zip(sides, paired, judgements, strict=True):
        difference = of_arm.difference
        if base is None or difference is None:
            continue
        diverged = lost_blocks(arm, base), lost_blocks(base, arm)
        verdict, reason = _verdict(judgement, direction, difference.n, diverged)
        comparisons[arm] = ResultComparison(
            metric=metric,
            direction=direction,
            difference=difference,
            corrected=judgement.corrected,
            confidence=judgement.confidence,
            p_value=judgement.p_value,
            verdict=verdict,
            margin=margin.value,
            share=margin.share,
            blocks_needed=judgement.blocks_needed,
            widened=margin.widened,
            validation_samples=margin.samples,
            diverged=diverged[0],
            baseline_diverged=diverged[1],
            reason=reason,
            constant_difference=of_arm.has_constant_difference,
        )
    return comparisons


def _verdict(
    judgement: Judgement, direction: Direction, blocks: int, diverged: tuple[int, int]
) -> tuple[ResultVerdict, str | None]:
    """Return the verdict and, if it is inconclusive, the reason."""
    verdict = _VERDICTS[direction].get(judgement.conclusion, "inconclusive")
    contradictions = [
        f"{side} training diverged in {counted(lost, 'block')} in which {other} did not"
        for side, other, lost, unspoiled in zip(
            _SIDES, _SIDES[::-1], diverged, _UNSPOILED, strict=True
        )
        if lost and verdict != unspoiled
    ]
    if contradictions:
        return "inconclusive", ", and ".join(contradictions)
    if blocks < MIN_BLOCKS:
        return "inconclusive", f"{counted(blocks, 'block')}; at least {MIN_BLOCKS} are needed"
    if verdict == "inconclusive":
        return verdict, "the interval includes 0 and exceeds the margin"
    return verdict, None
