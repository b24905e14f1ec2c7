"""The mathematics, against hand-computed values, scipy, and draws with known truth."""

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
    found = spread([4.0, 1.0, 3.0, 2.0, math.nan, math.inf])
    assert found is not None
    assert (found.n, found.lower_quartile, found.median, found.upper_quartile) == (
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


def test_t_interval_is_scipys() -> None:
    values = [1.0, 2.5, 0.5, 4.0, 3.0]
    found = t_interval(values)
    assert found is not None
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((2.2, low, high))


def test_geometric_mean_by_hand() -> None:
    """Logs 0, 1, 2: mean 1, standard deviation 1, t(2) at 97.5 % is 4.302653."""
    found = geometric_mean([1.0, math.e, math.e**2])
    assert found is not None
    half = 4.302653 / math.sqrt(3)
    assert found.n == 3
    assert found.value == pytest.approx(math.e)
    assert found.low == pytest.approx(math.exp(1 - half), rel=1e-6)
    assert found.high == pytest.approx(math.exp(1 + half), rel=1e-6)


@pytest.mark.parametrize("ratios", [[], [1.3]])
def test_fewer_than_two_ratios_have_no_interval_and_so_no_figure(ratios: list[float]) -> None:
    assert geometric_mean(ratios) is None


def test_no_spread_gives_an_interval_of_no_width() -> None:
    found = geometric_mean([1.25] * 8)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1.25, 1.25, 1.25))


def test_a_bound_beyond_the_largest_float_is_infinite() -> None:
    found = geometric_mean([1e-200, 1e200])
    assert found is not None
    assert (found.low, found.high) == (0.0, math.inf)


def test_squares_of_wild_values_do_not_overflow() -> None:
    found = t_interval([1e300, -1e300])
    assert found is not None and found.value == 0
    assert found.high == pytest.approx(1e300 * 12.7062047)


@given(RATIOS)
def test_inverted_ratios_invert_the_estimate(ratios: list[float]) -> None:
    one, other = geometric_mean(ratios), geometric_mean([1 / ratio for ratio in ratios])
    assert one is not None
    assert other is not None
    assert math.log(one.value) == pytest.approx(-math.log(other.value), abs=1e-9)
    if one.low > 0 and other.low > 0 and math.isfinite(one.high) and math.isfinite(other.high):
        assert math.log(one.low) == pytest.approx(-math.log(other.high), abs=1e-9)


def _draw(rng: np.random.Generator, truth: float, blocks: int, noise: float) -> list[float]:
    """Ratios of two noisy times in blocks of very unlike size, two repeats averaged."""
    size = rng.lognormal(3.0, 1.0, blocks)
    ours, theirs = (
        (size[:, None] * rng.lognormal(0.0, noise, (blocks, 2))).mean(axis=1) for _ in range(2)
    )
    return [float(ratio) for ratio in truth * theirs / ours]


@pytest.mark.parametrize("blocks", [6, 12, 40])
@pytest.mark.parametrize("truth", [1.0, 1.3])
def test_the_interval_covers_the_truth_as_often_as_it_says(blocks: int, truth: float) -> None:
    """95 % within four standard deviations of a binomial share."""
    rng = np.random.default_rng([blocks, int(100 * truth)])
    draws, covered = 2000, 0
    for _ in range(draws):
        found = geometric_mean(_draw(rng, truth, blocks, 0.15))
        assert found is not None
        covered += found.low <= truth <= found.high
    error = math.sqrt(0.95 * 0.05 / draws)
    assert abs(covered / draws - 0.95) < 4 * error
