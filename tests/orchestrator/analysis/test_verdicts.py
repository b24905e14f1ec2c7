"""Verdicts on draws with known truth: how often they are wrong, and how often they are found.

Shares are held against what is promised within four standard deviations of a binomial share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from orchestrator.analysis.statistics.verdicts import Judgement, blocks_for, judge
from tests.orchestrator.analysis.random_draws import Draws, heavy, one_sided

MARGIN = math.log1p(0.02)
REPORTS = 1500


def blocks_of(rng: np.random.Generator, truth: float, shape: tuple[int, ...], sd: float) -> Draws:
    """Log-ratios of blocks whose own ratios differ, each measured in two noisy repeats."""
    own = rng.normal(truth, sd / 2, shape)
    noise = rng.normal(0.0, sd * math.sqrt(0.75), (*shape, 2)) * math.sqrt(2)
    return own + noise.mean(axis=-1)


def findings(draws: Draws, margin: float = MARGIN) -> NDArray[np.str_]:
    """What is found in reports × arms × blocks: reports × arms."""
    return np.array([[each.finding for each in judge(one.tolist(), margin)] for one in draws])


def at_most(share: float, draws: int = REPORTS) -> float:
    return share + 4 * math.sqrt(share * (1 - share) / draws)


def only(values: list[float], margin: float = MARGIN) -> Judgement:
    (found,) = judge([values], margin)
    return found


@pytest.mark.parametrize("blocks", [6, 12, 40])
def test_one_comparison_is_students_and_schuirmanns(blocks: int) -> None:
    """Against SciPy's t test and statsmodels' two one-sided tests, each at 2.5 %."""
    rng = np.random.default_rng(blocks)
    seen = set()
    for sd in (0.004, 0.01, 0.03):
        for _ in range(60):
            values = rng.normal(rng.choice([0.0, 0.01, 0.05]), sd, blocks)
            found = only(values.tolist())
            assert found.p_value == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)
            same = DescrStatsW(values).ttost_mean(-MARGIN, MARGIN)[0] <= 0.025
            differs = stats.ttest_1samp(values, 0.0).pvalue <= 0.05
            way = "more" if values.mean() > 0 else "less"
            expected = "same" if same else way if differs else "inconclusive"
            assert found.finding == expected
            seen.add(found.finding)
    assert seen >= {"same", "more", "inconclusive"}


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_an_interval_excludes_1_exactly_when_holm_rejects(seed: int, arms: int) -> None:
    rng = np.random.default_rng(seed)
    draws = rng.normal(rng.choice([0.0, 0.5, 1.0], (arms, 1)), 1.0, (arms, 12))
    found = judge(draws.tolist(), margin=1e-9)  # nothing is the same
    p_values = [float(stats.ttest_1samp(one, 0.0).pvalue) for one in draws]
    for each, adjusted in zip(found, _closed_bonferroni(p_values), strict=True):
        assert each.corrected is not None
        assert (each.corrected.low > 0 or each.corrected.high < 0) == (adjusted <= 0.05)
        assert (each.finding in ("more", "less")) == (adjusted <= 0.05)
        assert each.p_value == pytest.approx(adjusted)


def _closed_bonferroni(p_values: list[float]) -> list[float]:
    """Holm's adjusted p-values as the closed test of Bonferroni's that his procedure is.

    Marcus, Peritz and Gabriel, Biometrika 63(3), 1976: an arm differs where every set of arms that
    it is in does.
    """
    places = range(len(p_values))
    sets = [each for size in places for each in combinations(places, size + 1)]
    of_set = {each: min(1.0, len(each) * min(p_values[i] for i in each)) for each in sets}
    return [max(p for each, p in of_set.items() if i in each) for i in places]


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_a_verdict_is_what_its_interval_shows(seed: int, arms: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice([0.0, MARGIN / 2, MARGIN, 2 * MARGIN], (arms, 1))
    draws = rng.normal(truth, 0.02, (arms, 12))
    for each in judge(draws.tolist(), MARGIN):
        shown = each.corrected
        assert shown is not None
        inside = max(-shown.low, shown.high) <= MARGIN
        assert (each.finding == "same") == inside
        if not inside:
            told = "more" if shown.low > 0 else "less" if shown.high < 0 else "inconclusive"
            assert each.finding == told


@pytest.mark.parametrize("blocks", [6, 12, 40])
def test_equal_arms_are_seldom_called_faster_or_slower(blocks: int) -> None:
    """In at most 5 % of the reports of five arms; each by itself at 5 % it would be 20 %."""
    rng = np.random.default_rng([1, blocks])
    draws = blocks_of(rng, 0.0, (REPORTS, 5, blocks), 0.1)
    wrong = np.isin(findings(draws), ("more", "less")).any(axis=1).mean()
    assert wrong <= at_most(0.05)
    alone = stats.ttest_1samp(draws, 0.0, axis=2).pvalue <= 0.05
    assert alone.any(axis=1).mean() > 0.15


def test_arms_that_differ_leave_the_error_of_the_equal_ones_as_it_is() -> None:
    """What Holm's procedure gains on Bonferroni's it takes from no equal arm."""
    rng = np.random.default_rng(2)
    far = blocks_of(rng, 0.5, (REPORTS, 3, 12), 0.1)
    equal = blocks_of(rng, 0.0, (REPORTS, 2, 12), 0.1)
    found = findings(np.concatenate([far, equal], axis=1))
    assert (found[:, :3] == "more").all()
    wrong = np.isin(found[:, 3:], ("more", "less")).any(axis=1).mean()
    assert 0.025 < wrong <= at_most(0.05)  # Bonferroni's would be 2 %


@pytest.mark.parametrize("arms", [1, 5])
@pytest.mark.parametrize("blocks", [6, 12, 40])
@pytest.mark.parametrize("sd", [0.002, 0.01])
def test_arms_at_the_margins_edge_are_seldom_called_the_same(
    blocks: int, arms: int, sd: float
) -> None:
    """In at most 2.5 % of the reports, also where all of them are at the edge."""
    rng = np.random.default_rng([3, blocks, arms, int(1000 * sd)])
    found = findings(blocks_of(rng, -MARGIN, (REPORTS, arms, blocks), sd))
    assert (found == "same").any(axis=1).mean() <= at_most(0.025)
    assert not (found == "more").any()


def test_arms_that_are_the_same_leave_the_error_of_those_at_the_edge_as_it_is() -> None:
    rng = np.random.default_rng(31)
    equal = blocks_of(rng, 0.0, (REPORTS, 3, 12), 0.004)
    edge = blocks_of(rng, MARGIN, (REPORTS, 2, 12), 0.004)
    found = findings(np.concatenate([equal, edge], axis=1))
    assert (found[:, :3] == "same").mean() > 0.99
    wrong = (found[:, 3:] == "same").any(axis=1).mean()
    assert 0.01 < wrong <= at_most(0.025)


@pytest.mark.parametrize(
    ("blocks", "sd", "least"), [(6, 0.005, 0.99), (12, 0.01, 0.95), (40, 0.02, 0.99)]
)
def test_equal_arms_are_called_the_same_where_it_can_be_seen(
    blocks: int, sd: float, least: float
) -> None:
    rng = np.random.default_rng([4, blocks])
    found = findings(blocks_of(rng, 0.0, (500, 1, blocks), sd))
    assert (found == "same").mean() >= least


@pytest.mark.parametrize(("blocks", "least"), [(6, 0.75), (12, 0.99), (40, 1.0)])
def test_a_slowdown_of_a_fifth_is_found_as_often_as_the_noise_allows(
    blocks: int, least: float
) -> None:
    """As SciPy's non-central t says of this noise: 0.80, 0.998 and 1."""
    rng = np.random.default_rng([5, blocks])
    found = findings(blocks_of(rng, -math.log(1.2), (600, 1, blocks), 0.12))
    assert (found == "less").mean() >= least
    assert not (found == "more").any()


@pytest.mark.parametrize(
    ("draw", "blocks", "least", "most"),
    [
        (heavy, 6, 0.95, 0.98),
        (heavy, 12, 0.95, 0.975),
        (heavy, 40, 0.94, 0.97),
        (one_sided, 6, 0.78, 0.83),
        (one_sided, 12, 0.77, 0.82),
        (one_sided, 40, 0.88, 0.93),
    ],
)
def test_what_heavy_tails_do_to_the_promise(
    draw: Callable[[np.random.Generator, tuple[int, ...]], Draws],
    blocks: int,
    least: float,
    most: float,
) -> None:
    """Even tails make verdicts rarer, not wronger; slowness on one side only breaks the promise.

    So a report leaves out disturbed rounds, and the interval is no substitute for that.
    """
    draws = draw(np.random.default_rng([6, blocks]), (4 * REPORTS, 1, blocks))
    share = (~np.isin(findings(draws, 1e-9), ("more", "less"))).mean()
    assert least <= share <= most


def test_a_percentile_bootstrap_would_promise_too_much() -> None:
    """Why it is a t interval: of 6 blocks the bootstrap's 95 % are fewer than 90 %."""
    rng = np.random.default_rng(7)
    draws = rng.normal(0.0, 1.0, (REPORTS, 6))
    again = draws[:, rng.integers(0, 6, (500, 6))].mean(axis=2)
    low, high = np.quantile(again, (0.025, 0.975), axis=1)
    assert ((low <= 0) & (high >= 0)).mean() < 0.90


def test_fewer_than_six_blocks_never_tell_and_count_for_no_correction() -> None:
    few, many = [0.5, 0.6, 0.5, 0.6, 0.5], [0.5, 0.6, 0.5, 0.6, 0.5, 0.6]
    assert only(few) == Judgement("inconclusive")
    assert judge([], MARGIN) == ()
    one, two, three = judge([few, many, []], MARGIN)
    assert (one.finding, two.finding, three.finding) == ("inconclusive", "more", "inconclusive")
    assert two == only(many)


@pytest.mark.parametrize(
    ("value", "finding", "p_value"),
    [(0.0, "same", 1.0), (MARGIN, "same", 0.0), (0.3, "more", 0.0), (-0.3, "less", 0.0)],
)
def test_blocks_that_do_not_differ_leave_no_doubt(
    value: float, finding: str, p_value: float
) -> None:
    found = only([value] * 6)
    assert (found.finding, found.p_value, found.blocks_needed) == (finding, p_value, None)


def test_two_wild_blocks_say_nothing() -> None:
    found = only([0.0] * 5 + [900.0, -900.0])
    assert (found.finding, found.blocks_needed) == ("inconclusive", None)
    assert found.corrected is not None and math.isfinite(found.corrected.low)


@pytest.mark.parametrize("sd", [0.005, 0.02, 0.1])
def test_blocks_for_a_width_are_the_fewest(sd: float) -> None:
    needed = blocks_for(sd, 0.01, 0.05)
    assert needed is not None

    def half_width(blocks: int) -> float:
        return float(stats.t.ppf(0.975, blocks - 1)) * sd / math.sqrt(blocks)

    assert half_width(needed) <= 0.01
    assert needed == 6 or half_width(needed - 1) > 0.01
    assert blocks_for(1e6, 0.01, 0.05) is None


def test_the_outlook_is_the_margin_and_then_half_of_it() -> None:
    rng = np.random.default_rng(8)
    wide = only(rng.normal(0.03, 0.08, 8).tolist()).blocks_needed
    assert wide is not None and wide.half_width == MARGIN
    assert wide.more_blocks + 8 == pytest.approx((1.97 * 0.08 / MARGIN) ** 2, rel=0.5)
    values = rng.normal(0.0, 1.0, 12)
    around = (values - values.mean()) / values.std(ddof=1)
    half_width = 2.201 * 0.01 / math.sqrt(12)
    margin = 1.3 * half_width
    narrow = only((0.01 * around + 0.8 * half_width).tolist(), margin)
    assert narrow.finding == "inconclusive"
    assert narrow.blocks_needed is not None and narrow.blocks_needed.half_width == margin / 2


@given(st.integers(0, 2**32 - 1))
def test_an_interval_no_wider_than_the_margin_always_tells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(rng.uniform(-0.05, 0.05), 0.01, 12)
    half_width = 2.201 * values.std(ddof=1) / math.sqrt(12)
    assert only(values.tolist(), margin=2.001 * half_width).finding != "inconclusive"
