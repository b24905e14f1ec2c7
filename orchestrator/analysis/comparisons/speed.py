"""Comparison of each arm with its baseline, block by block (`docs/statistics.md`).

All comparisons are one family: the more there are, the wider each interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.analysis.measures import TIMES, finite
from orchestrator.analysis.pairing import pairs
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, ended_rounds
from orchestrator.analysis.pairing.pairs import Baseline, Pair, PairedArms, PairedTimes
from orchestrator.analysis.statistics import estimates, verdicts
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.verdicts import BlocksNeeded, Conclusion
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import MeasureMode
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import counted

Verdict = Literal["same", "faster", "slower", "inconclusive"]

_SPEED: dict[Conclusion, Verdict] = {"same": "same", "more": "faster", "less": "slower"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against its baseline.

    `speedup` is the geometric mean of the blocks' ratios, baseline time over the arm's time: above
    1 the arm is faster. Its plain interval has the level `plain_confidence` (above 95 % in a sweep
    that stopped by the width of its intervals). The verdict follows from `corrected`, the interval
    at the level `confidence`, which is corrected for the report's other comparisons; `p_value` (of
    no difference) is adjusted likewise. `same` is wholly within `margin` (a share: 0.02 is 1 / 1.02
    to 1.02). Estimates are None for fewer than two blocks, corrected ones for fewer than
    `MIN_BLOCKS`. `reason` explains an `inconclusive` verdict. `blocks_needed` estimates how many
    more blocks give which half-width (of the logarithm of the ratio).

    `bias` is None unless too few rounds were quiet: then it is the largest factor that such other
    work was measured to cause, infinite if that was not measured. A verdict is then `provisional`:
    its whole interval is further from 1 than the bias.

    `measures` are the measuring modes of both. `disturbed_blocks` are those in which a side's
    timing was disturbed, `disturbance` the causes in the first one. With `quiet_only` the pairs are
    over undisturbed rounds alone. `not_interleaved_rounds` counts those excluded because the arms
    should have been interleaved and were not. `accuracy` is None if fewer than two blocks have one.
    """

    arm: Arm
    baseline: Arm | None
    metric: str | None
    pairs: tuple[Pair, ...]
    speedup: Estimate | None
    verdict: Verdict
    reason: str | None
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    plain_confidence: float
    margin: float
    blocks_needed: BlocksNeeded | None
    accuracy: AccuracyComparison | None
    measures: tuple[MeasureMode, MeasureMode]
    quiet_only: bool
    disturbed_blocks: tuple[int, ...]
    disturbance: Mapping[str, float]
    not_interleaved_rounds: int
    provisional: bool
    bias: float | None

    @property
    def label(self) -> str:
        """`slower`, or `slower (provisional)`."""
        return f"{self.verdict} (provisional)" if self.provisional else self.verdict

    @property
    def is_of_variants(self) -> bool:
        """True for two variants of one implementation on one hardware class."""
        variant = self.baseline.variant if self.baseline else None
        return variant is not None and self.baseline == replace(self.arm, variant=variant)


def compare_arms(
    record: SweepRecord, matched: CompleteRounds, baseline: Baseline, metric: str | None = None
) -> tuple[Comparison, ...]:
    """Compare every arm with its baseline, in the spec's order, by default by a time."""
    metric = metric or pairs.time_metric(matched)
    sides = [(arm, base) for arm in record.arms if (base := baseline.of.get(arm)) != arm]
    paired = [
        pairs.pair_arms(matched, arm, base, metric) if base else PairedArms() for arm, base in sides
    ]
    margin = record.criteria.margins.speed
    plain = estimates.confidence_for(record.criteria.auto_blocks)  # widths may have ended the sweep
    log_ratios, biases = [p.times.log_ratios for p in paired], [p.times.bias for p in paired]
    speeds = verdicts.judge(log_ratios, math.log1p(margin), 1 - plain, biases)
    accuracies = compare_accuracies(record, matched, sides, paired)
    comparisons = []
    for (arm, base), pair, speed, accuracy in zip(sides, paired, speeds, accuracies, strict=True):
        times, disturbed = pair.times, pair.times.selection.disturbed
        verdict = _SPEED.get(speed.conclusion, "inconclusive")
        comparisons.append(
            Comparison(
                arm=arm,
                baseline=base,
                metric=metric,
                pairs=times.pairs,
                speedup=times.ratio(plain),
                verdict=verdict,
                reason=_reason(matched, (arm, base), metric, times)
                if verdict == "inconclusive"
                else None,
                corrected=estimates.exponential(speed.corrected),
                confidence=speed.confidence,
                p_value=speed.p_value,
                plain_confidence=plain,
                margin=margin,
                blocks_needed=speed.blocks_needed,
                accuracy=accuracy,
                measures=(arm.measure, (base or arm).measure),
                quiet_only=times.selection.quiet_only,
                disturbed_blocks=tuple(sorted(disturbed)),
                disturbance=disturbed[min(disturbed)] if disturbed else {},
                not_interleaved_rounds=len(matched.not_interleaved((arm, base or arm))),
                provisional=speed.provisional,
                bias=math.exp(times.bias) if times.bias else None,
            )
        )
    return tuple(comparisons)


def _reason(
    matched: CompleteRounds, sides: tuple[Arm, Arm | None], metric: str | None, times: PairedTimes
) -> str:
    """Return why there is no verdict."""
    if None in sides:
        return "the baseline cannot run on this hardware"
    for side in sides:
        if side in matched.set_aside:
            return f"no trial of {side} is complete"
    if metric is None and matched.rounds:
        return f"neither {' nor '.join(TIMES)} was recorded on two arms"
    if len(times.pairs) < MIN_BLOCKS:
        number = counted(len(times.pairs), "block") if times.pairs else "no complete block"
        return f"{number}; at least {MIN_BLOCKS} are needed"
    return verdicts.inconclusive_reason(times.bias)


AccuracyVerdict = Literal["equal", "better", "worse", "inconclusive"]

_VERDICTS: Mapping[Conclusion, AccuracyVerdict] = {
    "same": "equal",
    "more": "better",
    "less": "worse",
}
_SIDES = ("its", "the baseline's")
_UNSPOILED: tuple[AccuracyVerdict, AccuracyVerdict] = ("worse", "better")
"""The verdict that a divergence of this side, or of the baseline, does not contradict."""
_WHOLE = 0.01  # of a sample: the error of single precision and of a mean over batches


@dataclass(frozen=True, slots=True)
class AccuracyComparison:
    """The mean over blocks of the arm's val_accuracy minus the baseline's.

    `difference` has the plain 95 % interval; the verdict follows from `corrected`, which is None
    for fewer than `MIN_BLOCKS` blocks: `equal` is wholly within the margin. `p_value` (of no
    difference) is adjusted for the other comparisons. `step` is the change of accuracy by one
    validation sample, if the margin was widened to it. `diverged` and `baseline_diverged` count
    blocks in which only that side's training diverged. `reason` explains an `inconclusive` verdict.
    """

    difference: Estimate
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    verdict: AccuracyVerdict
    margin: float
    blocks_needed: BlocksNeeded | None
    step: float | None
    diverged: int
    baseline_diverged: int
    reason: str | None


def compare_accuracies(
    record: SweepRecord,
    matched: CompleteRounds,
    sides: Sequence[tuple[Arm, Arm | None]],
    paired: Sequence[PairedArms],
) -> list[AccuracyComparison | None]:
    """Compare each arm's accuracy with its baseline's, as one family; None if it is unknown."""
    step = _coarse_step(record, matched)
    margin = step or record.criteria.margins.accuracy
    judged = verdicts.judge([pair.differences for pair in paired], margin)
    complete, broken = ended_rounds(record)

    def lost_blocks(arm: Arm, compared: Arm) -> int:
        """Count the blocks in which the arm diverged in a round that the other one completed."""
        rounds = broken.get(arm, set()) & complete.get(compared, set())
        return len({block for block, _ in rounds})

    comparisons: list[AccuracyComparison | None] = []
    for (arm, base), pair, judgement in zip(sides, paired, judged, strict=True):
        if base is None or pair.difference is None:
            comparisons.append(None)
            continue
        diverged = lost_blocks(arm, base), lost_blocks(base, arm)
        verdict, reason = _verdict(judgement.conclusion, pair.difference.n, diverged)
        comparisons.append(
            AccuracyComparison(
                pair.difference,
                judgement.corrected,
                judgement.confidence,
                judgement.p_value,
                verdict,
                margin,
                judgement.blocks_needed,
                step,
                *diverged,
                reason,
            )
        )
    return comparisons


def _coarse_step(record: SweepRecord, matched: CompleteRounds) -> float | None:
    """Return the change of accuracy by one validation sample if it is wider than the margin.

    None if an accuracy is not a whole number of steps: it then counts more than one item a sample.
    """
    sizes = {data.validation_samples for data in record.datasets if data.validation_samples > 0}
    if not sizes or min(sizes) * record.criteria.margins.accuracy >= 1:
        return None
    every = (trial for arm in matched.trials for trial in matched.all_trials(arm))
    is_whole = all(
        any(abs(accuracy * size - round(accuracy * size)) < _WHOLE for size in sizes)
        for accuracy in finite(every, "val_accuracy")
    )
    return 1 / min(sizes) if is_whole else None


def _verdict(
    conclusion: Conclusion, blocks: int, diverged: tuple[int, int]
) -> tuple[AccuracyVerdict, str | None]:
    """Return the verdict and, if it is inconclusive, the reason."""
    verdict = _VERDICTS.get(conclusion, "inconclusive")
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
