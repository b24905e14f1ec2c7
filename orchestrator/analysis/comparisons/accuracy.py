"""Comparison of accuracies, with diverged trainings taken into account.

A round in which one side diverged has no accuracy and is excluded. The remaining rounds are those
in which this side trained well. So they can show neither an equal accuracy nor a better one, if the
other side did not diverge there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.comparisons.divergence import ends
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds
from orchestrator.analysis.pairing.paired_arms import PairedArms
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import count
from orchestrator.analysis.statistics.stepped import Steps, coarse_step, stepped_interval
from orchestrator.analysis.statistics.verdicts import BlocksNeeded, Finding, Judgement, judge
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord

AccuracyVerdict = Literal["equal", "better", "worse", "inconclusive"]

_VERDICTS: Mapping[Finding, AccuracyVerdict] = {"same": "equal", "more": "better", "less": "worse"}
_SPOILS: Mapping[AccuracyVerdict, tuple[bool, bool]] = {
    "better": (True, False),
    "worse": (False, True),
}
"""The side whose divergence contradicts a verdict: (this side, other side); default both."""


@dataclass(frozen=True, slots=True)
class AccuracyComparison:
    """The mean over blocks of the arm's val_accuracy minus the baseline's.

    `difference` has the plain 95 % interval; the verdict follows from `corrected`, which is None
    for fewer than `MIN_BLOCKS` blocks: `equal` is wholly within the margin. `p_value` (of no
    difference) is adjusted for the report's other comparisons. `step` is the change of accuracy by
    one validation sample, if that exceeds the margin; intervals account for it. `diverged` and
    `baseline_diverged` count blocks in which only that side's training ended in numbers that are
    not finite. `reason` explains an `inconclusive` verdict and is None otherwise.
    """

    difference: Estimate
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    verdict: AccuracyVerdict
    margin: float
    blocks_needed: BlocksNeeded | None
    step: float | None = None
    diverged: int = 0
    baseline_diverged: int = 0
    reason: str | None = None


def compare_accuracies(
    record: SweepRecord,
    matched: CompleteRounds,
    sides: Sequence[tuple[Arm, Arm | None]],
    paired: Sequence[PairedArms | None],
) -> list[AccuracyComparison | None]:
    """Compare each arm's accuracy with its baseline's, as one family; None if it is unknown."""
    margin = record.criteria.margins.accuracy
    samples = (data.validation_samples for data in record.datasets)
    step = coarse_step(samples, _accuracies(matched), margin)
    judged = judge([pair.differences if pair else [] for pair in paired], margin, step=step)
    steps = Steps.at(step, 1 - CONFIDENCE)
    ended = ends(record)
    return [
        _comparison(stepped_interval(pair.differences, CONFIDENCE, steps), judgement, margin, step,
                    (len(ended.alone(arm, base)), len(ended.alone(base, arm))))
        if pair is not None and base is not None
        else None
        for (arm, base), pair, judgement in zip(sides, paired, judged, strict=True)
    ]  # fmt: skip


def _accuracies(matched: CompleteRounds) -> Iterator[float]:
    for rounds in matched.trials.values():
        for trials in rounds.values():
            values = (trial.metrics.get("val_accuracy", math.nan) for trial in trials)
            yield from filter(math.isfinite, values)


def _comparison(
    difference: Estimate | None,
    judged: Judgement,
    margin: float,
    step: float | None,
    diverged: tuple[int, int],
) -> AccuracyComparison | None:
    """Make the comparison; `diverged` counts blocks in which only the arm, or the baseline, did."""
    if difference is None:
        return None
    verdict, reason = accuracy_verdict(judged, difference.n, diverged, ("its", "the baseline's"))
    return AccuracyComparison(
        difference,
        judged.corrected,
        judged.confidence,
        judged.p_value,
        verdict,
        margin,
        judged.blocks_needed,
        step,
        *diverged,
        reason,
    )


def accuracy_verdict(
    judged: Judgement,
    blocks: int,
    diverged: tuple[int, int],
    whose: tuple[str, str],
    unit: str = "block",
) -> tuple[AccuracyVerdict, str | None]:
    """Return the verdict on one side's accuracy, and the reason if it is inconclusive.

    Args:
        judged: their differences, this side minus the other one.
        blocks: number of differences.
        diverged: number of blocks in which only this side diverged, and only the other.
        whose: the possessives of this side and of the other: `its`, `the baseline's`.
        unit: the noun for the blocks.
    """
    verdict = _VERDICTS.get(judged.finding, "inconclusive")
    contradictions = [
        f"{side} training diverged in {count(lost, unit)} in which {other} did not"
        for side, other, lost, counts in zip(
            whose, whose[::-1], diverged, _SPOILS.get(verdict, (True, True)), strict=True
        )
        if counts and lost
    ]
    if contradictions:
        return "inconclusive", ", and ".join(contradictions)
    if blocks < MIN_BLOCKS:
        return "inconclusive", f"{count(blocks, unit)}; at least {MIN_BLOCKS} are needed"
    if verdict == "inconclusive":
        return verdict, "the interval includes 0 and exceeds the margin"
    return verdict, None
