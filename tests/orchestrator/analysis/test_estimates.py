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


def test_t_interval_matches_scipy() -> None:
    values = [1.0, 2.5, 0.5, 4.0, 3.0]
    estimate = t_interval(values)
    assert estimate is not None
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((2.2, low, high))


def test_geometric_mean_by_hand() -> None:
    """The logs 0, 1, 2 have mean 1 and standard deviation 1; t(2) at 97.5 % is 4.302653."""
    estimate = geometric_mean([1.0, math.e, math.e**2])
    assert estimate is not None
    half = 4.302653 / math.sqrt(3)
    assert estimate.n == 3
    assert estimate.value == pytest.approx(math.e)
    assert estimate.low == pytest.approx(math.exp(1 - half), rel=1e-6)
    assert estimate.high == pytest.approx(math.exp(1 + half), rel=1e-6)


@pytest.mark.parametrize("ratios", [[], [1.3]])
def test_fewer_than_two_ratios_have_no_interval_and_so_no_figure(ratios: list[float]) -> None:
    assert geometric_mean(ratios) is None


def test_equal_ratios_have_an_interval_of_zero_width() -> None:
    estimate = geometric_mean([1.25] * 8)
    assert estimate is not None
    assert (estimate.low, estimate.value, estimate.high) == pytest.approx((1.25, 1.25, 1.25))


def test_a_bound_beyond_the_largest_float_is_infinite() -> None:
    estimate = geometric_mean([1e-200, 1e200])
    assert estimate is not None
    assert (estimate.low, estimate.high) == (0.0, math.inf)


def test_squares_of_extreme_values_do_not_overflow() -> None:
    estimate = t_interval([1e300, -1e300])
    assert estimate is not None and estimate.value == 0
    assert estimate.high == pytest.approx(1e300 * 12.7062047)


@given(RATIOS)
def test_inverted_ratios_invert_the_estimate(ratios: list[float]) -> None:
    one, other = geometric_mean(ratios), geometric_mean([1 / ratio for ratio in ratios])
    assert one is not None
    assert other is not None
    assert math.log(one.value) == pytest.approx(-math.log(other.value), abs=1e-9)
    if one.low > 0 and other.low > 0 and math.isfinite(one.high) and math.isfinite(other.high):
        assert math.log(one.low) == pytest.approx(-math.log(other.high), abs=1e-9)


def _draw(rng: np.random.Generator, truth: float, blocks: int, noise: float) -> list[float]:
    """Draw ratios of two noisy times, averaged over two repeats, in blocks of different sizes."""
    size = rng.lognormal(3.0, 1.0, blocks)
    ours, theirs = (
        (size[:, None] * rng.lognormal(0.0, noise, (blocks, 2))).mean(axis=1) for _ in range(2)
    )
    return [float(ratio) for ratio in truth * theirs / ours]


@pytest.mark.parametrize("blocks", [6, 12, 40])
@pytest.mark.parametrize("truth", [1.0, 1.3])
def test_the_interval_has_its_nominal_coverage(blocks: int, truth: float) -> None:
    """Expect 95 % within four standard deviations of a binomial share."""
    rng = np.random.default_rng([blocks, int(100 * truth)])
    draws, covered = 2000, 0
    for _ in range(draws):
        estimate = geometric_mean(_draw(rng, truth, blocks, 0.15))
        assert estimate is not None
        covered += estimate.low <= truth <= estimate.high
    error = math.sqrt(0.95 * 0.05 / draws)
    assert abs(covered / draws - 0.95) < 4 * error
