"""Test the error rates and the power of verdicts on draws with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from orchestrator.analysis.statistics.verdicts import Judgement, blocks_for, judge
from tests.benchmarks.trusting import synthetic
from tests.benchmarks.trusting.findings import fewest_by_chance, most_by_chance
from tests.orchestrator.analysis.random_draws import Draws
from tests.profiles import draws

MARGIN = math.log1p(0.02)
REPORTS = draws(400, 1500)


def blocks_of(
    rng: np.random.Generator, truth: float | Draws, shape: tuple[int, ...], sd: float
) -> Draws:
    """Draw log-ratios of blocks whose true ratios differ, measured in two noisy repeats."""
    own = rng.normal(truth, sd / 2, shape)
    noise = rng.normal(0.0, sd * math.sqrt(0.75), (*shape, 2)) * math.sqrt(2)
    return own + noise.mean(axis=-1)


def findings(reports: Draws, margin: float = MARGIN) -> NDArray[np.str_]:
    """Return the findings, as reports × arms, for draws as reports × arms × blocks."""
    return np.array(
        [[judgement.finding for judgement in judge(report.tolist(), margin)] for report in reports]
    )


def judge_one(values: list[float], margin: float = MARGIN) -> Judgement:
    (judgement,) = judge([values], margin)
    return judgement


@pytest.mark.parametrize("blocks", [6, 12, 40])
def test_one_comparison_matches_students_and_schuirmanns_tests(blocks: int) -> None:
    """Compare with SciPy's t test and statsmodels' two one-sided tests, each at 2.5 %."""
    rng = np.random.default_rng(blocks)
    seen = set()
    for sd in (0.004, 0.01, 0.03):
        for _ in range(draws()):
            values = rng.normal(rng.choice([0.0, 0.01, 0.05]), sd, blocks)
            judgement = judge_one(values.tolist())
            differs_p = stats.ttest_1samp(values, 0.0).pvalue
            assert judgement.p_value == pytest.approx(differs_p)
            same = DescrStatsW(values).ttost_mean(-MARGIN, MARGIN)[0] <= 0.025
            way = "more" if values.mean() > 0 else "less"
            expected = "same" if same else way if differs_p <= 0.05 else "inconclusive"
            assert judgement.finding == expected
            seen.add(judgement.finding)
    assert seen >= {"same", "more"}


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_an_interval_excludes_1_exactly_when_holm_rejects(seed: int, arms: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(rng.choice([0.0, 0.5, 1.0], (arms, 1)), 1.0, (arms, 12))
    judgements = judge(values.tolist(), margin=1e-9)  # nothing is the same
    p_values = [float(stats.ttest_1samp(own, 0.0).pvalue) for own in values]
    adjusted_p_values = multipletests(p_values, method="holm")[1]
    for judgement, adjusted in zip(judgements, adjusted_p_values, strict=True):
        assert judgement.corrected is not None
        assert (judgement.corrected.low > 0 or judgement.corrected.high < 0) == (adjusted <= 0.05)
        assert (judgement.finding in ("more", "less")) == (adjusted <= 0.05)
        assert judgement.p_value == pytest.approx(adjusted)


@pytest.mark.parametrize(
    ("truths", "sd", "blocks"),
    [
        ((0.0,) * 5, 0.1, 6),
        ((0.5, 0.5, 0.5, 0.0, 0.0), 0.1, 12),  # arms that differ are no burden to equal ones
        ((-MARGIN,) * 5, 0.01, 40),
        ((0.0, 0.0, 0.0, MARGIN, MARGIN), 0.004, 12),
    ],
)
def test_wrong_verdicts_are_as_rare_as_promised(
    truths: tuple[float, ...], sd: float, blocks: int
) -> None:
    """A wrong difference occurs in 5 % of reports at most, and a wrong sameness in 2.5 %."""
    rng = np.random.default_rng([1, blocks, len(truths), int(1000 * sd)])
    truth = np.array(truths)
    verdicts = findings(blocks_of(rng, truth[:, np.newaxis], (REPORTS, len(truths), blocks), sd))
    differs = np.isin(verdicts, ("more", "less")) & (truth == 0)
    assert differs.any(axis=1).sum() <= most_by_chance(REPORTS, 0.05)
    same = (verdicts == "same") & (np.abs(truth) >= MARGIN)
    assert same.any(axis=1).sum() <= most_by_chance(REPORTS, 0.025)
    assert not np.where(truth > 0, verdicts == "less", (truth < 0) & (verdicts == "more")).any()
    if 0.5 in truths:  # Bonferroni's procedure would be wrong in 2 %
        assert (verdicts[:, :3] == "more").all() and differs.any(axis=1).mean() > 0.025
    if {0.0, MARGIN} == set(truths):
        assert (verdicts[:, :3] == "same").mean() > 0.99
        assert same.any(axis=1).sum() > fewest_by_chance(REPORTS, 0.01)


def test_fewer_than_six_blocks_are_inconclusive_and_need_no_correction() -> None:
    few, many = [0.5, 0.6, 0.5, 0.6, 0.5], [0.5, 0.6, 0.5, 0.6, 0.5, 0.6]
    assert judge([], MARGIN) == ()
    one, two, three = judge([few, many, []], MARGIN)
    assert one == three == Judgement("inconclusive")
    assert two == judge_one(many)
    assert two.finding == "more"


@pytest.mark.parametrize(
    ("values", "finding", "p_value"),
    [
        ([0.0] * 6, "same", 1.0),
        ([MARGIN] * 6, "same", 0.0),
        ([0.3] * 6, "more", 0.0),
        ([-0.3] * 6, "less", 0.0),
        ([0.0] * 5 + [900.0, -900.0], "inconclusive", 1.0),
    ],
)
def test_blocks_without_spread_and_with_extreme_spread(
    values: list[float], finding: str, p_value: float
) -> None:
    judgement = judge_one(values)
    assert (judgement.finding, judgement.p_value) == (finding, p_value)
    assert judgement.blocks_needed is None
    assert judgement.corrected is not None and math.isfinite(judgement.corrected.low)


@pytest.mark.parametrize("sd", [0.005, 0.02, 0.1])
def test_blocks_for_a_width_are_the_minimum(sd: float) -> None:
    def half_width(blocks: int) -> float:
        return float(stats.t.ppf(0.975, blocks - 1)) * sd / math.sqrt(blocks)

    needed = blocks_for(sd, 0.01, 0.05)
    assert needed is not None
    assert half_width(needed) <= 0.01
    assert needed == 6 or half_width(needed - 1) > 0.01
    assert blocks_for(1e6, 0.01, 0.05) is None


def test_blocks_needed_aim_at_the_margin_and_then_at_half_of_it() -> None:
    rng = np.random.default_rng(8)
    wide = judge_one(rng.normal(0.03, 0.08, 8).tolist()).blocks_needed
    assert wide is not None and wide.half_width == MARGIN
    assert wide.more_blocks + 8 == pytest.approx((1.97 * 0.08 / MARGIN) ** 2, rel=0.5)
    values = rng.normal(0.0, 1.0, 12)
    around = (values - values.mean()) / values.std(ddof=1)
    half_width = 2.201 * 0.01 / math.sqrt(12)
    narrow = judge_one((0.01 * around + 0.8 * half_width).tolist(), 1.3 * half_width)
    assert narrow.finding == "inconclusive"
    assert narrow.blocks_needed is not None
    assert narrow.blocks_needed.half_width == 1.3 * half_width / 2


@pytest.mark.parametrize(("speeds", "is_kept"), [((), True), ((1.0, 1 / 1.3), False)])
def test_of_whole_reports_equal_arms_alone_keep_the_promised_error_rate(
    speeds: tuple[float, ...], is_kept: bool
) -> None:
    findings = synthetic.run(draws(60, 400), speeds)
    assert [finding.kept for finding in findings] == [is_kept] * 2, findings


def test_sweeps_that_stop_when_precise_are_unbiased() -> None:
    for finding in synthetic.stopping(draws(60, 400)):
        assert finding.kept, finding
