"""Comparison of accuracies, with diverged trainings taken into account.

A round in which one side diverged has no accuracy and is excluded. The remaining rounds are those
in which this side trained well. So they can show neither an equal accuracy nor a better one, if the
other side did not diverge there.

With few validation samples, accuracies come in steps: one more correct sample is one step. A margin
narrower than a step is widened to it, because blocks often coincide by chance: an arm that loses
one sample in every third block loses a third of a step, and six such blocks often do not differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, ended_rounds
from orchestrator.analysis.pairing.pairs import PairedArms
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import count
from orchestrator.analysis.statistics.verdicts import BlocksNeeded, Finding, judge
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord

AccuracyVerdict = Literal["equal", "better", "worse", "inconclusive"]

_VERDICTS: Mapping[Finding, AccuracyVerdict] = {"same": "equal", "more": "better", "less": "worse"}
_SIDES = ("its", "the baseline's")
_UNSPOILED: tuple[AccuracyVerdict, AccuracyVerdict] = ("worse", "better")
"""The verdict that a divergence of this side, or of the baseline, does not contradict."""
_WHOLE = 0.01  # of a sample: the error of single precision and of a mean over batches


@dataclass(frozen=True, slots=True)
class AccuracyComparison:
    """The mean over blocks of the arm's val_accuracy minus the baseline's.

    `difference` has the plain 95 % interval; the verdict follows from `corrected`, which is None
    for fewer than `MIN_BLOCKS` blocks: `equal` is wholly within the margin. `p_value` (of no
    difference) is adjusted for the report's other comparisons. `step` is the change of accuracy by
    one validation sample, if the margin was widened to it; else None. `diverged` and
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
    accuracies = (
        trial.metrics["val_accuracy"]
        for rounds in matched.trials.values()
        for trials in rounds.values()
        for trial in trials
        if "val_accuracy" in trial.metrics
    )
    samples = (data.validation_samples for data in record.datasets)
    margin = record.criteria.margins.accuracy
    step = _coarse_step(samples, accuracies, margin)
    margin = step or margin
    judged = judge([pair.differences if pair else [] for pair in paired], margin)
    complete, broken = ended_rounds(record)

    def lost_blocks(arm: Arm, other: Arm) -> int:
        """Count the blocks in which the arm diverged in a round that the other one completed."""
        rounds = broken.get(arm, set()) & complete.get(other, set())
        return len({block for block, _ in rounds})

    comparisons: list[AccuracyComparison | None] = []
    for (arm, base), pair, judgement in zip(sides, paired, judged, strict=True):
        if pair is None or base is None or pair.difference is None:
            comparisons.append(None)
            continue
        diverged = lost_blocks(arm, base), lost_blocks(base, arm)
        verdict, reason = _verdict(judgement.finding, pair.difference.n, diverged)
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


def _coarse_step(
    samples: Iterable[int], accuracies: Iterable[float], margin: float
) -> float | None:
    """Return the step of accuracies over so many samples (the smallest number counts).

    Return None if the step is unknown or not wider than the margin. None also if an accuracy is not
    a whole number of steps: it then counts more than one item a sample, such as tokens of a text.
    """
    sizes = {size for size in samples if size > 0}
    if not sizes or min(sizes) * margin >= 1:
        return None
    counts = (
        [accuracy * size for size in sizes] for accuracy in accuracies if math.isfinite(accuracy)
    )
    is_whole = all(any(abs(n - round(n)) < _WHOLE for n in of_sizes) for of_sizes in counts)
    return 1 / min(sizes) if is_whole else None


def _verdict(
    finding: Finding, blocks: int, diverged: tuple[int, int]
) -> tuple[AccuracyVerdict, str | None]:
    """Return the verdict and, if it is inconclusive, the reason.

    `diverged` counts the blocks in which only this side diverged, and only the baseline.
    """
    verdict = _VERDICTS.get(finding, "inconclusive")
    contradictions = [
        f"{side} training diverged in {count(lost, 'block')} in which {other} did not"
        for side, other, lost, unspoiled in zip(
            _SIDES, _SIDES[::-1], diverged, _UNSPOILED, strict=True
        )
        if lost and verdict != unspoiled
    ]
    if contradictions:
        return "inconclusive", ", and ".join(contradictions)
    if blocks < MIN_BLOCKS:
        return "inconclusive", f"{count(blocks, 'block')}; at least {MIN_BLOCKS} are needed"
    if verdict == "inconclusive":
        return verdict, "the interval includes 0 and exceeds the margin"
    return verdict, None
