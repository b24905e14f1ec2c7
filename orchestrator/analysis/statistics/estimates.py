"""Statistics of one comparison: quartiles, t intervals, geometric mean ratios.

Pure functions of numbers; the unit is the block, whatever its number was computed from.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from orchestrator.core.criteria import AutoBlocks

CONFIDENCE = 0.95
LEVEL = 0.97
"""Level of intervals whose width may have stopped a sweep (see `stopping`)."""
MIN_BLOCKS = 6
"""With fewer blocks the verdict is `open`, whatever the interval is."""
MIN_VALUES = 4
"""With fewer values there is no interval, because their spread is hardly known."""


_LARGEST = math.log(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of `n` values; the quartiles are absent for one value."""

    n: int
    median: float
    lower_quartile: float | None
    upper_quartile: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` blocks with the ends of its confidence interval.

    The ends are infinite (of a ratio: 0 and infinite) if there are too few values for an interval.
    """

    n: int
    value: float
    low: float
    high: float


def confidence_for(auto: AutoBlocks | None) -> float:
    """Return the level of a sweep's intervals that gives a coverage of 95 %."""
    return CONFIDENCE if auto is None else LEVEL


def spread(values: Sequence[float]) -> Spread | None:
    """Return median and quartiles of the finite values; None if there are none.

    Quartiles interpolate linearly between order statistics (type 7 of Hyndman and Fan,
    "Sample quantiles in statistical packages", The American Statistician 50(4), 1996).
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    lower, median, upper = (float(q) for q in np.quantile(finite, (0.25, 0.5, 0.75)))
    if len(finite) == 1:
        return Spread(1, median, None, None)
    return Spread(len(finite), median, lower, upper)


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Return the mean with its Student t interval: mean ± t(n-1) * s / sqrt(n).

    Source: Student, "The probable error of a mean", Biometrika 6(1), 1908. None for fewer
    than two values; infinite ends for fewer than `MIN_VALUES`.
    """
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    if n < MIN_VALUES:
        return Estimate(n, mean, -math.inf, math.inf)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * standard_error(values, mean)
    return Estimate(n, mean, mean - half, mean + half)


def standard_error(values: Sequence[float], mean: float) -> float:
    """Return the standard error of the mean of at least two values: s / sqrt(n), no overflow."""
    n = len(values)
    return math.hypot(*(value - mean for value in values)) / math.sqrt((n - 1) * n)


def exponential(logs: Estimate) -> Estimate:
    """Return the estimate of a ratio from the estimate of its logarithm.

    The geometric mean is the one average of ratios that does not depend on which side is the
    baseline: Fleming and Wallace, "How not to lie with statistics: the correct way to summarize
    benchmark results", Communications of the ACM 29(3), 1986.
    """
    ends = (logs.value, logs.low, logs.high)  # two wild blocks may exceed the largest float
    return Estimate(logs.n, *(math.exp(end) if end < _LARGEST else math.inf for end in ends))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))
