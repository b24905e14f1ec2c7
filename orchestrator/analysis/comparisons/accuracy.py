"""Comparison of accuracies, with diverged trainings taken into account.

A round in which one side diverged has no accuracy and is excluded. The remaining rounds are those
in which this side trained well. So they can show neither an equal accuracy nor a better one, if the
other side did not diverge there.

With few validation samples, accuracies come in steps: one more correct sample is one step. A margin
narrower than a step is widened to it, because blocks often coincide by chance: an arm that loses
one sample in every third block loses a third of a step, and six such blocks often do not differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.measures import finite
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, ended_rounds
from orchestrator.analysis.pairing.pairs import PairedArms
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.verdicts import BlocksNeeded, Finding, judge
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.text import counted

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
    judged = judge([pair.differences for pair in paired], margin)
    complete, broken = ended_rounds(record)

    def lost_blocks(arm: Arm, other: Arm) -> int:
        """Count the blocks in which the arm diverged in a round that the other one completed."""
        rounds = broken.get(arm, set()) & complete.get(other, set())
        return len({block for block, _ in rounds})

    comparisons: list[AccuracyComparison | None] = []
    for (arm, base), pair, judgement in zip(sides, paired, judged, strict=True):
        if base is None or pair.difference is None:
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
    finding: Finding, blocks: int, diverged: tuple[int, int]
) -> tuple[AccuracyVerdict, str | None]:
    """Return the verdict and, if it is inconclusive, the reason."""
    verdict = _VERDICTS.get(finding, "inconclusive")
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
