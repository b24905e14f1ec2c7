"""Test intervals, verdicts and their rates against SciPy, statsmodels and draws of known truth."""

import math
from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from orchestrator.analysis.contrasts.contrast import Verdict
from orchestrator.analysis.statistics.batch_means import batches_of, half_width, planned_looks
from orchestrator.analysis.statistics.estimates import (
    Estimate,
    Spread,
    exponential,
    spread,
    t_interval,
)
from orchestrator.analysis.statistics.formatting import (
    difference,
    number,
    quartiles,
    ratio,
)
from orchestrator.analysis.statistics.verdicts import Judgement, blocks_for, judge
from tests.building.asking import asked
from tests.building.chance import fewest_by_chance, most_by_chance
from tests.building.noisy_sweeps import (
    build_noisy_record,
    draw_until_enough,
    recorded_noise,
    slice_until_narrow,
)
from tests.profiles import draws

MARGIN = math.log1p(0.02)


def test_the_spread_is_of_finite_values() -> None:
    assert spread([4.0, 1.0, 3.0, 2.0, math.nan, math.inf]) == Spread(4, 2.5, 1.75, 3.25)
    assert spread([5.0]) == Spread(1, 5.0, None, None)
    assert spread([]) is spread([math.nan]) is None


def test_extreme_and_few_values() -> None:
    assert t_interval([]) is t_interval([1.3]) is None
    equal, logs = t_interval([1.25] * 8), t_interval([-460.0, 460.0] * 2)
    assert equal is not None and logs is not None
    wild = exponential(logs)
    assert (equal.low, equal.value, equal.high) == pytest.approx((1.25, 1.25, 1.25))
    assert (wild.low, wild.high) == (0.0, math.inf)
    huge, three = t_interval([1e300, -1e300] * 2), t_interval([1.0, 2.0, 3.0])
    assert huge is not None and huge.high == pytest.approx(3.1824463e300 / math.sqrt(3))
    assert three == Estimate(3, 2.0, -math.inf, math.inf)  # no interval


@pytest.mark.parametrize(
    ("spread_of_values", "text"),
    [
        (Spread(9, 123456.0, 121000.0, 126000.0), "123,000 (121,000–126,000)"),
        (Spread(9, 5.0, 0.02, 30.0), "5.00 (0.02–30.00)"),
        (Spread(1, 904.5752, None, None), "905"),
    ],
)
def test_a_spread_is_written_as_its_median_and_quartiles(
    spread_of_values: Spread, text: str
) -> None:
    assert quartiles(spread_of_values) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (None, "–"),
        (Estimate(8, 1.3123, 1.2199, 1.4049), "1.31 × (1.22–1.40)"),
        (Estimate(8, 1.1, 1.0004, 1.2), "1.1000 × (1.0004–1.2000)"),
        (Estimate(4, 0.19802704, 2.6e-07, 149453.38), "0.2 × (2.6e-07–1.5e+05)"),
        (Estimate(3, 0.02713, 0.0, math.inf), "0.0271 ×"),
    ],
)
def test_a_ratio_is_written_with_the_digits_that_its_interval_allows(
    estimate: Estimate | None, text: str
) -> None:
    assert ratio(estimate) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(8, 0.00211, -0.0041, 0.0083), "+0.002 (-0.004 to +0.008)"),
        (Estimate(3, 0.00211, -math.inf, math.inf), "+0.00211"),
        (Estimate(8, -1e-09, -0.01, 0.01), "0.000 (-0.010 to +0.010)"),
    ],
)
def test_a_difference_is_written_with_its_sign_and_interval(estimate: Estimate, text: str) -> None:
    assert difference(estimate) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (0.00012345, "0.000123"),
        (99.96, "100"),
        (1234.5678, "1,230"),
        (1500000000000.0, "1.5e+12"),
        (float("nan"), "nan"),
    ],
)
def test_a_number_is_written_with_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_several_looks_widen_the_interval() -> None:
    assert planned_looks(12, 96) == (12, 17, 24, 34, 48, 68, 96)
    assert (planned_looks(6, 6), planned_looks(3, 4)) == ((6,), (3, 4))
    turns = [0.01 * (-1) ** turn + 0.001 * turn for turn in range(24)]
    assert half_width(turns, looks=7) > 1.3 * half_width(turns)


def test_autocorrelation_of_turns_widens_the_interval() -> None:
    rising, alternating = range(12), [turn // 2 + 6 * (turn % 2) for turn in range(12)]
    assert half_width(rising) > 3 * half_width(alternating) > 0


def test_batches_are_equal_parts_of_adjacent_turns() -> None:
    assert batches_of(range(8)) == [range(turn, turn + 1) for turn in range(8)]
    assert batches_of(range(21)) == [range(at, at + 2) for at in range(1, 21, 2)]  # 0 fills none


def judge_one(values: list[float], margin: float = MARGIN) -> Judgement:
    (judgement,) = judge([values], margin)
    return judgement


def adjusted_by_holm(p_values: list[float]) -> list[float]:
    """Return what statsmodels makes of them, without its full garbage collection in each call."""
    with mock.patch("gc.collect"):
        return [float(p) for p in multipletests(p_values, method="holm")[1]]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_several_comparisons_match_holms_procedure(seed: int, arms: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(rng.choice([0.0, 0.5, 1.0], (arms, 1)), 1.0, (arms, 12))
    p_values = [float(stats.ttest_1samp(sample, 0.0).pvalue) for sample in values]
    judgements = judge(values.tolist(), margin=1e-9)  # nothing is the same
    for judgement, adjusted in zip(judgements, adjusted_by_holm(p_values), strict=True):
        assert judgement.corrected is not None
        assert (judgement.corrected.low > 0 or judgement.corrected.high < 0) == (adjusted <= 0.05)
        assert (judgement.conclusion in ("more", "less")) == (adjusted <= 0.05)
    p_values = [min(1.0, 2 * DescrStatsW(sample).ttost_mean(-1.0, 1.0)[0]) for sample in values]
    are_same = [adjusted <= 0.05 for adjusted in adjusted_by_holm(p_values)]
    for judgement, same in zip(judge(values.tolist(), margin=1.0), are_same, strict=True):
        assert judgement.corrected is not None
        assert (judgement.corrected.low >= -1 and judgement.corrected.high <= 1) == same
        assert (judgement.conclusion == "same") == same


def test_sameness_is_corrected_for_comparisons_that_differ() -> None:
    values = np.random.default_rng(1).normal(size=12)
    around = (values - values.mean()) / values.std(ddof=1)  # its interval is ± 0.64, or ± 0.90
    *others, last = judge([*[(around + 9).tolist()] * 4, around.tolist()], 0.7)
    assert {other.conclusion for other in others} == {"more"}
    assert judge_one(around.tolist(), 0.7).conclusion == "same"
    assert last.conclusion == "open"
    assert last.corrected is not None and last.corrected.high == pytest.approx(0.90, abs=0.01)


@pytest.mark.parametrize(
    ("values", "conclusion"),
    [
        ([0.0] * 6, "same"),
        ([MARGIN] * 6, "same"),
        ([0.3] * 6, "more"),
        ([-0.3] * 6, "less"),
        ([0.0] * 5 + [900.0, -900.0], "open"),
    ],
)
def test_blocks_without_spread_and_with_extreme_spread(
    values: list[float], conclusion: str
) -> None:
    judgement = judge_one(values)
    assert (judgement.conclusion, judgement.more_blocks) == (conclusion, None)
    assert judgement.corrected is not None and math.isfinite(judgement.corrected.low)


def test_blocks_for_a_width_are_the_minimum() -> None:
    sd = 0.02

    def half_width(blocks: int) -> float:
        return float(stats.t.ppf(0.975, blocks - 1)) * sd / math.sqrt(blocks)

    needed = blocks_for(sd, 0.01, 0.05)
    assert needed is not None
    assert half_width(needed) <= 0.01
    assert half_width(needed - 1) > 0.01
    assert blocks_for(1e6, 0.01, 0.05) is None


def test_an_interval_as_narrow_as_the_margin_needs_blocks_for_half_of_it() -> None:
    values = np.random.default_rng(8).normal(0.0, 1.0, 12)
    around = (values - values.mean()) / values.std(ddof=1)
    half_width = 2.201 * 0.01 / math.sqrt(12)
    margin = 1.01 * half_width
    narrow = judge_one((0.01 * around + 0.8 * half_width).tolist(), margin)
    assert narrow.conclusion == "open"
    needed = blocks_for(0.01, margin / 2, 0.05)
    assert needed is not None and narrow.more_blocks == needed - 12


@pytest.mark.parametrize(("speeds", "is_kept"), [((), True), ((1.0, 1 / 1.3), False)])
@pytest.mark.parametrize("times", [1, 2], ids=["two arms", "four arms"])
def test_of_whole_reports_equal_arms_alone_keep_the_promised_error_rate(
    speeds: tuple[float, ...], is_kept: bool, times: int
) -> None:
    logs, random, sweeps = recorded_noise(), np.random.default_rng(1), draws(60, 200)
    reports = [
        asked(build_noisy_record((6, 12, 40)[n % 3], 2 * times, random, logs, speeds * times))
        for n in range(sweeps)
    ]
    wrong = sum(
        any(contrast.verdict in (Verdict.BETTER, Verdict.WORSE) for contrast in report)
        for report in reports
    )
    assert (wrong <= most_by_chance(sweeps, 0.05)) == is_kept


@pytest.mark.parametrize("truth", [1.0, 1.05])
def test_sweeps_that_stop_when_precise_are_unbiased(truth: float) -> None:
    random, logs, count = (
        np.random.default_rng([7, round(100 * truth)]),
        recorded_noise(),
        draws(60, 200),
    )
    stopped = [draw_until_enough(truth, logs, random) for _ in range(count)]
    speedups = [contrast.estimate for contrast in stopped]
    check_unbiased(
        [math.log(speedup.value / truth) for speedup in speedups],
        [speedup.low <= truth <= speedup.high for speedup in speedups],
    )


def test_rounds_of_slices_that_stop_when_precise_are_unbiased() -> None:
    truth, random, logs = math.log(1.05), np.random.default_rng(8), recorded_noise()
    rounds = [slice_until_narrow(truth, logs, random) for _ in range(draws(60, 200))]
    check_unbiased(
        [ratio - truth for _, ratio, _ in rounds],
        [abs(ratio - truth) <= half_width for _, ratio, half_width in rounds],
    )


def check_unbiased(errors: Sequence[float], covered: Sequence[bool]) -> None:
    """Check that enough intervals cover the truth, and that the mean error is within chance."""
    assert sum(covered) >= fewest_by_chance(len(covered), 0.95)
    assert abs(np.mean(errors)) <= 2.58 * np.std(errors, ddof=1) / math.sqrt(len(errors))
