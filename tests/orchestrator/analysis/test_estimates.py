"""Test estimates against hand-computed values, SciPy, and draws with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.analysis.statistics.estimates import geometric_mean, spread, t_interval

RATIOS = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40)


def test_quartiles_by_hand() -> None:
    quartiles = spread([4.0, 1.0, 3.0, 2.0, math.nan, math.inf])
    assert quartiles is not None
    assert (quartiles.n, quartiles.lower_quartile, quartiles.median, quartiles.upper_quartile) == (
        4,
        1.75,
        2.5,
        3.25,
    )


def test_one_value_has_no_quartiles_and_none_has_no_median() -> None:
    one = spread([5.0])
    assert one is not None
    assert (one.n, one.median, one.lower_quartile, one.upper_quartile) == (1, 5.0, None, None)
    assert spread([]) is None
    assert spread([math.nan]) is None


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


@given(RATIOS)
def test_inverted_ratios_invert_the_estimate(ratios: list[float]) -> None:
    one, other = geometric_mean(ratios), geometric_mean([1 / ratio for ratio in ratios])
    assert one is not None
    assert other is not None
    assert math.log(one.value) == pytest.approx(-math.log(other.value), abs=1e-9)
    if one.low > 0 and other.low > 0 and math.isfinite(one.high) and math.isfinite(other.high):
        assert math.log(one.low) == pytest.approx(-math.log(other.high), abs=1e-9)
