"""Test estimates against hand-computed values and SciPy, and the digits of numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.statistics.estimates import (
    Estimate,
    Spread,
    geometric_mean,
    spread,
    t_interval,
)
from orchestrator.analysis.statistics.formatting import (
    difference,
    joined,
    number,
    quartiles,
    ratio,
)
from orchestrator.core.text import counted


def test_the_spread_is_of_finite_values() -> None:
    assert spread([4.0, 1.0, 3.0, 2.0, math.nan, math.inf]) == Spread(4, 2.5, 1.75, 3.25)
    assert spread([5.0]) == Spread(1, 5.0, None, None)
    assert spread([]) is spread([math.nan]) is None


def test_intervals_match_scipy() -> None:
    values = [1.0, 2.5, 0.5, 4.0, 3.0]
    estimate, ratio = t_interval(values), geometric_mean([math.exp(value) for value in values])
    assert estimate is not None and ratio is not None
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((2.2, low, high))
    assert ratio.n == 5
    assert ratio.value == pytest.approx(math.exp(2.2))
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(low), math.exp(high)))


def test_extreme_and_few_values() -> None:
    assert geometric_mean([]) is geometric_mean([1.3]) is None
    equal, wild = geometric_mean([1.25] * 8), geometric_mean([1e-200, 1e200])
    assert equal is not None and wild is not None
    assert (equal.low, equal.value, equal.high) == pytest.approx((1.25, 1.25, 1.25))
    assert (wild.low, wild.high) == (0.0, math.inf)
    huge = t_interval([1e300, -1e300])
    assert huge is not None and huge.high == pytest.approx(1e300 * 12.7062047)


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        (None, "–"),
        (Spread(9, 70.6132, 69.8123, 74.0187), "70.6 (69.8–74.0)"),
        (Spread(9, 0.93412, 0.92801, 0.93899), "0.934 (0.928–0.939)"),
        (Spread(9, 123456.0, 121000.0, 126000.0), "123500 (121000–126000)"),
        (Spread(9, 0.00123, 0.00120, 0.00129), "0.001230 (0.001200–0.001290)"),
        (Spread(9, 5.0, 0.02, 30.0), "5.000 (0.020–30.000)"),
        (Spread(9, 10.0, 10.0, 10.0), "10.00 (10.00–10.00)"),
        (Spread(9, 0.0, 0.0, 0.0), "0.000 (0.000–0.000)"),
        (Spread(1, 904.5752, None, None), "904.6"),
    ],
)
def test_quartiles(spread: Spread | None, expected: str) -> None:
    assert quartiles(spread) == expected


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (None, "–"),
        (Estimate(8, 1.3123, 1.2199, 1.4049), "1.31 × (1.22–1.40)"),
        (Estimate(8, 1.1, 1.0004, 1.2), "1.1000 × (1.0004–1.2000)"),
        (Estimate(8, 0.99, 0.98, 0.99996), "0.99000 × (0.98000–0.99996)"),
        (Estimate(8, 1.25, 1.25, 1.25), "1.250 × (1.250–1.250)"),
        (Estimate(8, 1.0, 1.0, 1.0), "1.000 × (1.000–1.000)"),
        (Estimate(2, 1.3, 0.021, 80.0), "1.300 × (0.021–80.000)"),
        (Estimate(2, 0.19802704, 2.6e-7, 149453.38), "0.2 × (2.6e-07–1.5e+05)"),
        (Estimate(2, 1.2, 0.0016, 983.0), "1.2 × (0.0016–980)"),
        (Estimate(2, 2.0, 0.0004, 9970.0), "2 × (0.0004–1e+04)"),
        (Estimate(2, 1.0, 0.0, math.inf), "1 × (0–∞)"),
    ],
)
def test_ratio(estimate: Estimate | None, expected: str) -> None:
    assert ratio(estimate) == expected


def test_difference() -> None:
    assert difference(Estimate(8, 0.00211, -0.0041, 0.0083)) == "+0.002 (-0.004 to +0.008)"
    assert difference(Estimate(8, -1e-9, -0.01, 0.01)) == "0.000 (-0.010 to +0.010)"
    assert difference(None) == "–"


def test_number_and_words() -> None:
    numbers = [number(value) for value in (3, 3.0, 0.00012345, 1234.5678, math.nan)]
    assert numbers == ["3", "3", "0.0001234", "1235", "nan"]
    lists = [joined(parts) for parts in ([], ["a"], ["a", "b"], ["a", "b", "c"])]
    assert lists == ["", "a", "a and b", "a, b and c"]
    assert [counted(n, "block") for n in (0, 1, 2)] == ["0 blocks", "1 block", "2 blocks"]
