"""Verdicts of several comparisons in one report, with intervals corrected for their number.

For k comparisons over at least `MIN_BLOCKS` blocks each (the others get no verdict):

- *A difference* is a t test of the blocks' numbers against 0. Holm's procedure over the k p-values
  decides which differ: Holm, "A simple sequentially rejective multiple test procedure",
  Scandinavian Journal of Statistics 6(2), 1979. The interval has the level of its rank, and all
  that are not found to differ have the level at which the procedure stopped. So an interval
  excludes 0 exactly when Holm's procedure rejects.
- *Sameness* is two one-sided tests against the margin, each at half of the error: Schuirmann, "A
  comparison of the two one-sided tests procedure and the power approach for assessing the
  equivalence of average bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15(6),
  1987. They are a family of their own, because a small difference can be the same within the
  margin.
- A verdict follows from the one interval that is shown: within the margin is *same*, otherwise an
  interval that excludes 0 gives the direction.
- A verdict over blocks on a busy machine is provisional: its interval must be further from 0 than
  the largest bias (see `bias`).

So at an error of 5 % a family has a wrong "more" or "less" in at most 5 % of sweeps, and a wrong
"same" in at most 2.5 %. The speed-ups of a report are one family, and so are its accuracies, the
times to one target, and the pairs of one ranking; a whole report can be wrong more often. This
holds for blocks that scatter evenly around their mean; see `tests/benchmarks/results/coverage.txt`
for others.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, starmap
from typing import Literal

from scipy.special import stdtr, stdtrit

from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    standard_error,
    t_interval,
)

Finding = Literal["same", "more", "less", "inconclusive"]

_ROUNDING = 1e-12  # a difference of logarithms or accuracies below this is arithmetic's own noise
_MANY_BLOCKS = 10_000  # more than anybody runs


@dataclass(frozen=True, slots=True)
class BlocksNeeded:
    """The number of further blocks like these that narrow the interval to `half_width`."""

    more_blocks: int
    half_width: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one comparison, on the scale of the blocks' numbers.

    `corrected` is the interval that decides the finding, at the level `confidence`; `p_value`
    is that of no difference, adjusted by Holm's procedure: below 5 % if it rejects. All are None
    where there are too few blocks for a finding. `blocks_needed` is set where the finding is open.
    A `provisional` finding is beyond the bias of disturbed blocks.
    """

    finding: Finding
    corrected: Estimate | None = None
    confidence: float | None = None
    p_value: float | None = None
    blocks_needed: BlocksNeeded | None = None
    provisional: bool = False


def judge(
    comparisons: Sequence[Sequence[float]],
    margin: float,
    error: float = 1 - CONFIDENCE,
    biases: Sequence[float] = (),
) -> tuple[Judgement, ...]:
    """Judge the comparisons of one family, each by its blocks' log-ratios or differences.

    The margin is the difference that does not matter, on the scale of these numbers; `error` is the
    share of sweeps in which one of them may wrongly differ. `biases` are the largest of each
    comparison, 0 for quiet blocks.
    """
    judged = [values for values in comparisons if len(values) >= MIN_BLOCKS]
    p_values = [_p_values(values, margin) for values in judged]
    steps = (_holm(family, error) for family in zip(*p_values, strict=True))
    judgements = (
        _judgement(values, margin, *own) for values, *own in zip(judged, *steps, strict=True)
    )
    every = (
        next(judgements) if len(values) >= MIN_BLOCKS else Judgement("inconclusive")
        for values in comparisons
    )
    biases = biases or [0.0] * len(comparisons)
    return tuple(starmap(_beyond, zip(biases, every, strict=True)))


def _beyond(bias: float, judgement: Judgement) -> Judgement:
    """Return the finding as provisional if it is larger than the bias, else as inconclusive."""
    shown = judgement.corrected
    if not bias or shown is None:
        return judgement
    if shown.low > bias or shown.high < -bias:
        return replace(judgement, provisional=True)
    return replace(judgement, finding="inconclusive", blocks_needed=None)


def blocks_for(deviation: float, half_width: float, error: float) -> int | None:
    """Return the fewest blocks whose t interval has at most this half-width; None if too many.

    `deviation` is the standard deviation between blocks.
    """

    def is_narrow(blocks: int) -> bool:
        quantile = float(stdtrit(blocks - 1, 1 - error / 2))
        return quantile * deviation / math.sqrt(blocks) <= half_width

    blocks = range(MIN_BLOCKS, _MANY_BLOCKS + 1)
    place = bisect_left(blocks, True, key=is_narrow)
    return blocks[place] if place < len(blocks) else None


@dataclass(frozen=True, slots=True)
class _HolmStep:
    """One step of Holm's procedure: the level of a p-value, and the decision."""

    level: float
    rejected: bool
    adjusted_p: float


def _holm(p_values: Sequence[float], error: float) -> list[_HolmStep]:
    """Apply Holm's procedure; what it does not reject gets the level at which it stopped."""
    # statsmodels' `multipletests` does it too, but its import takes longer than a whole report
    tests = len(p_values)
    order = sorted(range(tests), key=lambda i: p_values[i])
    least = accumulate(
        (min(1.0, (tests - rank) * p_values[i]) for rank, i in enumerate(order)), max
    )
    adjusted = dict(zip(order, least, strict=True))
    last = min(sum(p <= error for p in adjusted.values()), tests - 1)
    ranks = {place: min(rank, last) for rank, place in enumerate(order)}
    return [
        _HolmStep(error / (tests - ranks[i]), adjusted[i] <= error, adjusted[i])
        for i in range(tests)
    ]


def _p_values(values: Sequence[float], margin: float) -> tuple[float, float]:
    """Return the p-values of no difference, and of a difference of the margin (doubled)."""
    n = len(values)
    mean = math.fsum(values) / n
    error = standard_error(values, mean)
    if error < _ROUNDING:
        return float(abs(mean) <= _ROUNDING), float(abs(mean) > margin + _ROUNDING)
    differs_p, same_p = (2 * stdtr(n - 1, gap / error) for gap in (-abs(mean), abs(mean) - margin))
    return float(differs_p), min(1.0, float(same_p))


def _judgement(
    values: Sequence[float], margin: float, differs: _HolmStep, same: _HolmStep
) -> Judgement:
    level = same.level if same.rejected else differs.level
    corrected = t_interval(values, 1 - level)
    assert corrected is not None  # of MIN_BLOCKS values
    if not same.rejected and _is_within(corrected, margin):
        level = min(level, same.level)
        corrected = t_interval(values, 1 - level)
        assert corrected is not None
    finding: Finding = "inconclusive"
    if _is_within(corrected, margin):
        finding = "same"
    elif corrected.low > _ROUNDING:
        finding = "more"
    elif corrected.high < -_ROUNDING:
        finding = "less"
    needed = _blocks_needed(values, margin, level) if finding == "inconclusive" else None
    return Judgement(finding, corrected, 1 - level, differs.adjusted_p, needed)


def _is_within(interval: Estimate, margin: float) -> bool:
    return -margin - _ROUNDING <= interval.low and interval.high <= margin + _ROUNDING


def _blocks_needed(values: Sequence[float], margin: float, level: float) -> BlocksNeeded | None:
    """Return the blocks for a half-width of the margin, or of half of it, which always decides."""
    n = len(values)
    deviation = standard_error(values, math.fsum(values) / n) * math.sqrt(n)
    for half_width in (margin, margin / 2):
        needed = blocks_for(deviation, half_width, level)
        if needed is None:
            return None
        if needed > n:
            return BlocksNeeded(needed - n, half_width)
    return None
