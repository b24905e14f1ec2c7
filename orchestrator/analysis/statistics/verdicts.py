"""Verdicts of several comparisons in one report, with intervals corrected for their number.

`docs/statistics.md` has the rules and their sources (Holm 1979, Schuirmann 1987).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from scipy.special import stdtr, stdtrit

from orchestrator.analysis.statistics import estimates

Conclusion = Literal["same", "more", "less", "open"]
"""What a comparison shows: a difference within the margin, one in either direction, or nothing."""

CORRECTION = "Holm"
"""The name of the procedure that corrects the intervals of a family, for texts."""

_ROUNDING = 1e-12  # a difference of logarithms or accuracies below this is arithmetic's own noise
_MANY_BLOCKS = 10_000  # more than anybody runs


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one comparison, on the scale of the blocks' numbers.

    `corrected` is the interval that decides the conclusion; None where there are too few blocks for
    one. Where the conclusion is open, `more_blocks` like these narrow the interval to the margin,
    or to half of it, which always decides; None if no number does that anybody runs.
    """

    conclusion: Conclusion
    corrected: estimates.Estimate | None = None
    more_blocks: int | None = None


def judge(
    comparisons: Sequence[Sequence[float]],
    margin: float,
    error: float = 1 - estimates.CONFIDENCE,
) -> tuple[Judgement, ...]:
    """Judge the comparisons of one family, each by its blocks' log-ratios or differences.

    The margin is the difference that does not matter, on the scale of these numbers; `error` is the
    share of sweeps in which one of them may wrongly differ.
    """
    judgements = [Judgement("open")] * len(comparisons)
    indices = [
        index for index, values in enumerate(comparisons) if len(values) >= estimates.MIN_BLOCKS
    ]
    p_values = [_p_values(comparisons[index], margin) for index in indices]
    differs = _holm([differs_p for differs_p, _ in p_values], error)
    same = _holm([same_p for _, same_p in p_values], error)
    for index, differs_step, same_step in zip(indices, differs, same, strict=True):
        judgements[index] = _judgement(comparisons[index], margin, differs_step, same_step)
    return tuple(judgements)


def blocks_for(deviation: float, half_width: float, error: float) -> int | None:
    """Return the fewest blocks whose t interval has at most this half-width; None if too many.

    `deviation` is the standard deviation between blocks.
    """

    def is_narrow(blocks: int) -> bool:
        quantile = float(stdtrit(blocks - 1, 1 - error / 2))
        return quantile * deviation / math.sqrt(blocks) <= half_width

    blocks = range(estimates.MIN_BLOCKS, _MANY_BLOCKS + 1)
    index = bisect_left(blocks, True, key=is_narrow)
    return blocks[index] if index < len(blocks) else None


@dataclass(frozen=True, slots=True)
class _HolmStep:
    """One step of Holm's procedure: the level of a p-value, and the decision."""

    level: float
    rejected: bool


def _holm(p_values: Sequence[float], error: float) -> list[_HolmStep]:
    """Apply Holm's procedure; what it does not reject gets the level at which it stopped."""
    # `multipletests` of statsmodels does it too, and the tests compare with it. Its import would
    # take each report another second; SciPy has no Holm.
    tests = len(p_values)
    order = sorted(range(tests), key=lambda i: p_values[i])
    least = accumulate(
        (min(1.0, (tests - rank) * p_values[i]) for rank, i in enumerate(order)), max
    )
    adjusted = dict(zip(order, least, strict=True))
    last = min(sum(p <= error for p in adjusted.values()), tests - 1)
    ranks = {index: min(rank, last) for rank, index in enumerate(order)}
    return [_HolmStep(error / (tests - ranks[i]), adjusted[i] <= error) for i in range(tests)]


def _p_values(values: Sequence[float], margin: float) -> tuple[float, float]:
    """Return the p-values of no difference, and of a difference of the margin (doubled)."""
    n = len(values)
    mean = math.fsum(values) / n
    error = estimates.standard_error(values, mean)
    if error < _ROUNDING:
        return float(abs(mean) <= _ROUNDING), float(abs(mean) > margin + _ROUNDING)
    differs_p, same_p = (2 * stdtr(n - 1, gap / error) for gap in (-abs(mean), abs(mean) - margin))
    return float(differs_p), min(1.0, float(same_p))


def _judgement(
    values: Sequence[float], margin: float, differs: _HolmStep, same: _HolmStep
) -> Judgement:
    level = same.level if same.rejected else differs.level
    corrected = estimates.t_interval(values, 1 - level)
    assert corrected is not None  # of MIN_BLOCKS values
    if not same.rejected and _is_within(corrected, margin):
        level = min(level, same.level)
        corrected = estimates.t_interval(values, 1 - level)
        assert corrected is not None
    conclusion: Conclusion = "open"
    if _is_within(corrected, margin):
        conclusion = "same"
    elif corrected.low > _ROUNDING:
        conclusion = "more"
    elif corrected.high < -_ROUNDING:
        conclusion = "less"
    more_blocks = _more_blocks(values, margin, level) if conclusion == "open" else None
    return Judgement(conclusion, corrected, more_blocks)


def _is_within(interval: estimates.Estimate, margin: float) -> bool:
    return -margin - _ROUNDING <= interval.low and interval.high <= margin + _ROUNDING


def _more_blocks(values: Sequence[float], margin: float, level: float) -> int | None:
    n = len(values)
    deviation = estimates.standard_error(values, math.fsum(values) / n) * math.sqrt(n)
    for half_width in (margin, margin / 2):
        needed = blocks_for(deviation, half_width, level)
        if needed is None:
            return None
        if needed > n:
            return needed - n
    return None
