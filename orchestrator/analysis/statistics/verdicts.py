"""What several comparisons of one report show together: corrected intervals, and verdicts.

The rules, for k comparisons over at least `MIN_BLOCKS` blocks each (the others have no verdict, and
so nothing to be wrong with), at an error of 5 %:

- *A difference* is a t test of the blocks' numbers against 0. Holm's procedure over the k p-values
  says which differ: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
  Journal of Statistics 6(2), 1979. The r-th smallest p-value is held against 5 % / (k - r + 1), and
  the interval shown has that level; all that are not found to differ have the level at which the
  procedure stopped. So an interval excludes 0 exactly when Holm's procedure rejects.
- *Sameness* is two one-sided tests against the margin: Schuirmann, "A comparison of the two
  one-sided tests procedure and the power approach for assessing the equivalence of average
  bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987; each at half of
  the error, as a two-sided interval within the margin is. Holm's procedure over the k of them says
  which are the same: a family of its own, as what differs a little may well be the same within the
  margin. Those have the interval of their rank in it.
- A verdict is read from the one interval that is shown: within the margin is *same*, whatever else
  it excludes (equivalence wins); else one that excludes 0 says which way. An interval that would
  lie within the margin although sameness is not shown for all that are compared is widened to the
  level at which that procedure stopped.
- *Accuracies that come in steps* wider than the margin, as with few validation samples, have
  intervals and p-values that allow for differences too rare to be among the blocks: `coarse`.

So of the comparisons that are judged together one is wrongly "more" or "less" in at most 5 % of
sweeps, and one wrongly "same" in at most 2.5 %, however many they are. Together are judged the
speed-ups of a report; its accuracies; one kind of expense to one target; the pairs of one ranking.
A whole report, which has several of these, may be wrong more often. All that is of blocks whose
numbers scatter evenly around their mean; where one block in ten is slow on one side only, by half,
an interval covers the mean of all such blocks in 80 % of sweeps with 6 or 12 blocks, and in 92 % of
those with 40 (`tests/benchmarks/results/coverage.txt`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from scipy.special import stdtr, stdtrit

from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    standard_error,
)
from orchestrator.analysis.statistics.stepped import (
    Steps,
    blocks_to_see,
    readings,
    stepped_interval,
    unseen_p,
)

Finding = Literal["same", "more", "less", "inconclusive"]

_ROUNDING = 1e-12  # a difference of logarithms or accuracies below this is arithmetic's own noise
_MANY_BLOCKS = 10_000  # nobody runs more


@dataclass(frozen=True, slots=True)
class BlocksNeeded:
    """What `more_blocks` like those seen would bring the half-width of the interval to."""

    more_blocks: int
    half_width: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the blocks' numbers of one comparison say, on the scale of these numbers.

    `corrected` is the interval that the finding is read from, at the level `confidence`; `p_value`
    is that of no difference, adjusted by Holm's procedure: below 5 % where it rejects. All are None
    where there are too few blocks for a finding. `blocks_needed` is set where the finding is open.
    """

    finding: Finding
    corrected: Estimate | None = None
    confidence: float | None = None
    p_value: float | None = None
    blocks_needed: BlocksNeeded | None = None


@dataclass(frozen=True, slots=True)
class _Sample:
    """Mean and standard error of one comparison's blocks, its two p-values, and their steps."""

    values: Sequence[float]
    mean: float
    error: float
    differs_p: float
    same_p: float
    steps: Steps | None = None


def judge(
    comparisons: Sequence[Sequence[float]],
    margin: float,
    error: float = 1 - CONFIDENCE,
    step: float | None = None,
) -> tuple[Judgement, ...]:
    """Judge comparisons that stand in one report, each by its blocks' numbers around 0.

    Args:
        comparisons: for each comparison one number a block: log-ratios, or differences.
        margin: what does not matter, on the scale of the numbers.
        error: the share of sweeps in which one of these may wrongly differ.
        step: of numbers that come in steps wider than the margin: `coarse_step`.
    """
    able = sum(len(values) >= MIN_BLOCKS for values in comparisons)
    steps = Steps.at(step, error / max(1, able))
    samples = [
        _sample(values, margin, steps) if len(values) >= MIN_BLOCKS else None
        for values in comparisons
    ]
    judged = [sample for sample in samples if sample]
    differs = holm([sample.differs_p for sample in judged], error)
    same = holm([sample.same_p for sample in judged], error)
    found = iter(
        _judgement(sample, margin, one, other)
        for sample, one, other in zip(judged, differs, same, strict=True)
    )
    return tuple(next(found) if sample else Judgement("inconclusive") for sample in samples)


def blocks_for(deviation: float, half_width: float, error: float) -> int | None:
    """The fewest blocks whose t interval has at most this half-width; None where too many.

    `deviation` is the standard deviation between blocks.
    """
    low, high = MIN_BLOCKS, _MANY_BLOCKS
    if _half_width(deviation, high, error) > half_width:
        return None
    while low < high:
        middle = (low + high) // 2
        if _half_width(deviation, middle, error) <= half_width:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True)
class Held:
    """What a p-value was held against in Holm's procedure, and what came of it."""

    level: float
    rejected: bool
    adjusted_p: float


def holm(p_values: Sequence[float], error: float) -> list[Held]:
    """Holm's procedure; those that it does not reject have the level at which it stopped.

    As statsmodels' `multipletests` does it, whose import takes longer than a whole report.
    """
    tests = len(p_values)
    order = sorted(range(tests), key=lambda i: p_values[i])
    least = accumulate(
        (min(1.0, (tests - rank) * p_values[i]) for rank, i in enumerate(order)), max
    )
    adjusted = dict(zip(order, least, strict=True))
    last = min(sum(p <= error for p in adjusted.values()), tests - 1)
    ranks = {place: min(rank, last) for rank, place in enumerate(order)}
    return [
        Held(error / (tests - ranks[i]), adjusted[i] <= error, adjusted[i]) for i in range(tests)
    ]


def _sample(values: Sequence[float], margin: float, steps: Steps | None) -> _Sample:
    """The two-sided p-value of no difference, and twice the larger one of the two one-sided tests.

    Blocks that do not differ at all leave no doubt, either way, but for what steps hide.
    """
    n = len(values)
    mean = math.fsum(values) / n
    error = standard_error(values, mean)
    if error < _ROUNDING and steps is not None:
        differs_p, same_p = (unseen_p(n, gap, steps) for gap in (abs(mean), margin - abs(mean)))
        return _Sample(values, mean, 0.0, differs_p, same_p, steps)
    if error < _ROUNDING:
        differs, same = abs(mean) > _ROUNDING, abs(mean) <= margin + _ROUNDING
        return _Sample(values, mean, 0.0, float(not differs), float(not same))
    p_values = [_p_values(each, margin) for each in readings(values, steps)]
    differs_p, same_p = map(max, zip(*p_values, strict=True))
    return _Sample(values, mean, error, differs_p, same_p, steps)


def _p_values(values: Sequence[float], margin: float) -> tuple[float, float]:
    n = len(values)
    mean = math.fsum(values) / n
    error = standard_error(values, mean)
    differs_p = 2 * float(stdtr(n - 1, -abs(mean) / error))
    same_p = 2 * float(stdtr(n - 1, (abs(mean) - margin) / error))
    return differs_p, min(1.0, same_p)


def _judgement(sample: _Sample, margin: float, differs: Held, same: Held) -> Judgement:
    level = same.level if same.rejected else differs.level
    corrected = _interval(sample, level)
    if not same.rejected and _within(corrected, margin):
        level = min(level, same.level)
        corrected = _interval(sample, level)
    judgement = Judgement(_read(corrected, margin), corrected, 1 - level, differs.adjusted_p)
    if judgement.finding != "inconclusive":
        return judgement
    return replace(judgement, blocks_needed=_blocks_needed(sample, margin, level))


def _interval(sample: _Sample, level: float) -> Estimate:
    found = stepped_interval(sample.values, 1 - level, sample.steps)
    assert found is not None  # it has MIN_BLOCKS values
    return found


def _read(interval: Estimate, margin: float) -> Finding:
    if _within(interval, margin):
        return "same"
    if interval.low > _ROUNDING:
        return "more"
    if interval.high < -_ROUNDING:
        return "less"
    return "inconclusive"


def _within(interval: Estimate, margin: float) -> bool:
    return -margin - _ROUNDING <= interval.low and interval.high <= margin + _ROUNDING


def _blocks_needed(sample: _Sample, margin: float, level: float) -> BlocksNeeded | None:
    """The blocks for a half-width of the margin; of half of it, where it is that narrow already.

    An interval no wider than the margin always tells: it excludes 0, or lies within the margin.
    """
    n = len(sample.values)
    if sample.steps and not sample.error:
        unseen = blocks_to_see(margin, level, sample.steps)
        return BlocksNeeded(unseen - n, margin) if unseen > n else None
    deviation = sample.error * math.sqrt(n)
    for half_width in (margin, margin / 2):
        needed = blocks_for(deviation, half_width, level)
        if needed is None:
            return None
        if needed > n:
            return BlocksNeeded(needed - n, half_width)
    return None


def _half_width(deviation: float, blocks: int, error: float) -> float:
    return float(stdtrit(blocks - 1, 1 - error / 2)) * deviation / math.sqrt(blocks)
