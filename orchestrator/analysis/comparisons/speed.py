"""Comparison of each arm with its baseline, block by block (`docs/statistics.md`).

All comparisons are one family: the more there are, the wider each interval.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.analysis.comparisons.results import ResultComparison, compare_results
from orchestrator.analysis.measures import TIMES
from orchestrator.analysis.pairing import pairs
from orchestrator.analysis.pairing.complete_rounds import (
    CompleteRounds,
    Qualifier,
    RoundSelection,
    UnitKind,
)
from orchestrator.analysis.pairing.pairs import Baseline, ComparedPair, Pair, PairedTimes
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

    The numbers of blocks are numbers of repeats where the `unit` is a repeat: then there is one
    config, and the verdict is about it. `qualifier` is what limits the verdict; `busy` if some of
    the compared blocks were disturbed, because fewer than `MIN_BLOCKS` were quiet.

    With `different_mathematics` the arm or its baseline computes something else than its reference:
    then their times are not compared. `measures` are the measuring modes of both.
    `disturbed` are the blocks (or the repeats of one config) in which a side's timing was
    disturbed, `disturbance` the causes with their medians over these. With `quiet_only` the pairs
    are over undisturbed rounds.
    `not_interleaved_rounds` counts those excluded because the arms should have been interleaved and
    were not. `results` are the comparisons of what training achieved, the one by the first
    objective first; a metric of which fewer than two blocks have both values is left out.
    """

    arm: Arm
    baseline: Arm | None
    metric: str | None
    unit: UnitKind
    pairs: tuple[Pair, ...]
    speedup: Estimate | None
    verdict: Verdict
    qualifier: Qualifier | None
    reason: str | None
    corrected: Estimate | None
    confidence: float | None
    p_value: float | None
    plain_confidence: float
    margin: float
    blocks_needed: BlocksNeeded | None
    results: tuple[ResultComparison, ...]
    measures: tuple[MeasureMode, MeasureMode]
    quiet_only: bool
    disturbed: tuple[int, ...]
    disturbance: Mapping[str, float]
    not_interleaved_rounds: int
    different_mathematics: bool

    @property
    def label(self) -> str:
        """The verdict with its qualifier: `slower`, or `slower (busy)`."""
        return f"{self.verdict} ({self.qualifier})" if self.qualifier else self.verdict

    @property
    def result(self) -> ResultComparison | None:
        """The comparison by the most important result."""
        return self.results[0] if self.results else None

    @property
    def is_of_variants(self) -> bool:
        """True for two variants of one implementation on one hardware class."""
        variant = self.baseline.variant if self.baseline else None
        return variant is not None and self.baseline == replace(self.arm, variant=variant)


def compare_arms(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline,
    metric: str | None = None,
    different: Collection[Arm] = (),
) -> tuple[Comparison, ...]:
    """Compare every arm with its baseline, in the spec's order, by default by a time.

    Arms that are `different` compute something else than their reference, and are not compared.
    """
    metric = metric or pairs.time_metric(matched)
    sides = _sides(record, baseline)
    paired = pairs.pair_times(matched, sides, metric, different)
    margin = record.criteria.margins.speed
    plain = estimates.confidence_for(record.criteria.auto_blocks)  # widths may have ended the sweep
    log_ratios = [times.log_ratios for times in paired]
    speeds = verdicts.judge(log_ratios, math.log1p(margin), 1 - plain)
    results = compare_results(record, matched, sides)
    comparisons = []
    for (arm, base), times, speed in zip(sides, paired, speeds, strict=True):
        selection = times.selection
        verdict = _SPEED.get(speed.conclusion, "inconclusive")
        comparisons.append(
            Comparison(
                arm=arm,
                baseline=base,
                metric=metric,
                unit=selection.unit_kind,
                pairs=times.pairs,
                speedup=times.ratio(plain),
                verdict=verdict,
                qualifier=selection.qualifier,
                reason=_reason(matched, (arm, base), metric, times, different)
                if verdict == "inconclusive"
                else None,
                corrected=estimates.exponential(speed.corrected),
                confidence=speed.confidence,
                p_value=speed.p_value,
                plain_confidence=plain,
                margin=margin,
                blocks_needed=speed.blocks_needed,
                results=results.get(arm, ()),
                measures=(arm.measure, (base or arm).measure),
                quiet_only=selection.quiet_only,
                disturbed=selection.disturbed_numbers,
                disturbance=selection.disturbance,
                not_interleaved_rounds=len(matched.not_interleaved((arm, base or arm))),
                different_mathematics=bool({arm, base} & set(different)),
            )
        )
    return tuple(comparisons)


def _sides(record: SweepRecord, baseline: Baseline) -> list[ComparedPair]:
    return [(arm, base) for arm in record.arms if (base := baseline.of.get(arm)) != arm]


def rounds_of_comparisons(
    record: SweepRecord,
    matched: CompleteRounds,
    baseline: Baseline | None,
    metric: str | None,
    different: Collection[Arm] = (),
) -> dict[Arm, RoundSelection]:
    """Return the rounds over which `compare_arms` compares each arm by a time."""
    if baseline is None:
        return {}
    return pairs.compared_rounds(matched, _sides(record, baseline), metric, different)


def _reason(
    matched: CompleteRounds,
    sides: tuple[Arm, Arm | None],
    metric: str | None,
    times: PairedTimes,
    different: Collection[Arm],
) -> str:
    """Return why there is no verdict."""
    if None in sides:
        return "the baseline cannot run on this hardware"
    for side in sides:
        if side in matched.set_aside:
            return f"no trial of {side} is complete"
    for side in sides:
        if side in different:
            return f"{side} computes something else than its reference (different mathematics)"
    if metric is None and matched.rounds:
        return f"neither {' nor '.join(TIMES)} was recorded on two arms"
    if len(times.pairs) < MIN_BLOCKS:
        number = counted(len(times.pairs), "block") if times.pairs else "no complete block"
        return f"{number}; at least {MIN_BLOCKS} are needed"
    return "the interval includes 1 and exceeds the margin"
