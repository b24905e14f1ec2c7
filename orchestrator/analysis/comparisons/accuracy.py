"""Whether an arm costs accuracy: what the blocks' differences show, and what diverging says to it.

A round in which one side diverged is left out, for it has no accuracy; the rounds that are left
are those in which this side did well. So they show no equal accuracy, and none that is better than
the other's, where that did not diverge there.
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
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Arm

AccuracyVerdict = Literal["equal", "better", "worse", "inconclusive"]

_VERDICTS: Mapping[Finding, AccuracyVerdict] = {"same": "equal", "more": "better", "less": "worse"}
_SPOILS: Mapping[AccuracyVerdict, tuple[bool, bool]] = {
    "better": (True, False),
    "worse": (False, True),
}
"""Whose diverging speaks against a verdict: this side's, the other one's; both where not named."""


@dataclass(frozen=True, slots=True)
class AccuracyComparison:
    """The mean over blocks of the arm's val_accuracy minus the baseline's.

    `difference` has the plain 95 % interval; the verdict is read from `corrected`, which is None
    for fewer than `MIN_BLOCKS` blocks: `equal` is wholly within the margin. `p_value` (of no
    difference) is adjusted for the report's other comparisons. `step` is what one validation sample
    changes an accuracy by, where that is more than the margin: intervals allow for it. `diverged`
    and `baseline_diverged` count blocks in which that side's training alone ended in numbers that
    are not finite; `reason` says why a verdict is `inconclusive`, and is empty otherwise.
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
    reason: str = ""


def compare_accuracies(
    record: SweepRecord,
    matched: CompleteRounds,
    sides: Sequence[tuple[Arm, Arm | None]],
    paired: Sequence[PairedArms | None],
) -> list[AccuracyComparison | None]:
    """Each arm's accuracy beside its baseline's, judged together; None where it is not known."""
    margin = record.criteria.margins.accuracy
    samples = (data.validation_samples for data in record.datasets)
    step = coarse_step(samples, _accuracies(matched), margin)
    judged = judge([pair.differences if pair else [] for pair in paired], margin, step=step)
    steps = Steps.at(step, 1 - CONFIDENCE)
    ended = ends(record)
    return [
        _comparison(stepped_interval(pair.differences, CONFIDENCE, steps), each, margin, step,
                    (len(ended.alone(arm, base)), len(ended.alone(base, arm))))
        if pair is not None and base is not None
        else None
        for (arm, base), pair, each in zip(sides, paired, judged, strict=True)
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
    """What was judged, in words; `diverged` are blocks in which the arm, or the baseline, did."""
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
) -> tuple[AccuracyVerdict, str]:
    """The verdict on one side's accuracy beside the other's, and why nothing can be told.

    Args:
        judged: their differences, this side minus the other one.
        blocks: how many these are.
        diverged: in how many blocks this side alone diverged, and in how many the other alone.
        whose: how either side's training is called.
        unit: what the blocks are called.
    """
    verdict = _VERDICTS.get(judged.finding, "inconclusive")
    told = [
        f"{side} training diverged in {count(lost, unit)} in which {other} did not"
        for side, other, lost, counts in zip(
            whose, whose[::-1], diverged, _SPOILS.get(verdict, (True, True)), strict=True
        )
        if counts and lost
    ]
    if told:
        return "inconclusive", ", and ".join(told)
    if blocks < MIN_BLOCKS:
        return "inconclusive", f"{count(blocks, unit)}; at least {MIN_BLOCKS} are needed"
    if verdict == "inconclusive":
        return verdict, "the interval includes 0, and reaches beyond the margin"
    return verdict, ""
