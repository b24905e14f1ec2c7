"""Test intervals of accuracies over few validation samples, which often coincide."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from orchestrator.analysis.comparisons.accuracy import AccuracyComparison
from orchestrator.analysis.statistics.estimates import t_interval
from orchestrator.analysis.statistics.stepped import Steps, coarse_step, stepped_interval
from orchestrator.analysis.statistics.verdicts import judge
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import PORTABLE, XLA, sweep, trial

STEP = 1 / 64
MARGIN = 0.005
SWEEPS = 1000
EDGE = MARGIN / STEP  # the share of blocks with one sample less, of an arm at the margin's edge


def draw_losses(share: float, blocks: int, arms: int = 1) -> NDArray[np.float64]:
    """Draw differences of arms that lose one validation sample in a share of their blocks."""
    rng = np.random.default_rng([blocks, arms])
    return np.where(rng.random((SWEEPS, arms, blocks)) < share, -STEP, 0.0)


def share_called_same(draws: NDArray[np.float64], step: float | None) -> float:
    """Return the share of reports that call some arm the same."""
    calls = [
        any(judgement.finding == "same" for judgement in judge(report.tolist(), MARGIN, step=step))
        for report in draws
    ]
    return sum(calls) / len(calls)


def at_most(share: float) -> float:
    return share + 4 * math.sqrt(share * (1 - share) / SWEEPS)


@pytest.mark.parametrize("arms", [1, 4])
@pytest.mark.parametrize("blocks", [6, 8, 12, 16])
def test_an_arm_that_loses_the_margin_is_seldom_called_the_same(blocks: int, arms: int) -> None:
    """At most 2.5 % of sweeps are wrong if the arm loses a third of a step, the margin."""
    assert share_called_same(draw_losses(EDGE, blocks, arms), STEP) <= at_most(0.025)


@pytest.mark.parametrize(("blocks", "wrong"), [(6, 0.099), (12, 0.065), (16, 0.073)])
def test_spread_alone_would_underestimate_the_error(blocks: int, wrong: float) -> None:
    """Steps matter: a tenth of such sweeps have six blocks without a lost sample."""
    assert share_called_same(draw_losses(EDGE, blocks), None) == pytest.approx(wrong, abs=0.02)


@pytest.mark.parametrize(("blocks", "least"), [(10, 0.75), (20, 0.9), (40, 0.99)])
def test_an_arm_that_seldom_differs_is_called_the_same(blocks: int, least: float) -> None:
    """With one lost sample in 50 blocks, 10 blocks or more can show equality."""
    assert share_called_same(draw_losses(0.02, blocks), STEP) >= least


@pytest.mark.parametrize(
    ("blocks", "finding"), [(6, "inconclusive"), (9, "inconclusive"), (10, "same")]
)
def test_coinciding_blocks_show_equality_only_if_there_are_enough(
    blocks: int, finding: str
) -> None:
    """The p-value 2 (1 - margin / step) ^ n is 0.20, 0.062 and 0.042."""
    (judgement,) = judge([[0.0] * blocks], MARGIN, step=STEP)
    assert judgement.finding == finding
    assert judgement.corrected is not None
    half_width = STEP * (1 - 0.025 ** (1 / blocks))
    assert (judgement.corrected.low, judgement.corrected.high) == pytest.approx(
        (-half_width, half_width)
    )
    more = judgement.blocks_needed.more_blocks + blocks if judgement.blocks_needed else 10
    assert more == 10


def test_a_step_within_the_margin_changes_nothing() -> None:
    assert coarse_step([200], [0.5], MARGIN) is None
    assert coarse_step([199], [100 / 199], MARGIN) == 1 / 199
    assert coarse_step([10_000], [0.5], 1e-5) == 1e-4


def test_a_step_requires_accuracies_that_are_multiples_of_it() -> None:
    counted = [count / 64 for count in (31, 40, 64)]
    single = [float(np.float32(value)) for value in counted]
    assert coarse_step([64], counted, MARGIN) == STEP
    assert coarse_step([64, 128, 0], single, MARGIN) == STEP
    assert coarse_step([64], [*counted, 0.5013], MARGIN) is None  # an accuracy over tokens
    assert coarse_step([60, 100], [31 / 60, 77 / 100], MARGIN) == 1 / 60  # one of each
    assert coarse_step([60, 100], [31 / 60, 0.5013], MARGIN) is None
    assert coarse_step([], counted, MARGIN) is None
    assert coarse_step([0], counted, MARGIN) is None


@given(
    st.lists(st.integers(-6, 6), min_size=2, max_size=12),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_steps_never_make_an_interval_narrower(counts: list[int], confidence: float) -> None:
    values = [STEP * count for count in counts]
    plain = t_interval(values, confidence)
    wide = stepped_interval(values, confidence, Steps.at(STEP, 1 - confidence))
    assert plain is not None and wide is not None
    assert wide.low <= plain.low <= wide.value <= plain.high <= wide.high
    assert wide.value == plain.value
    assert wide.high - wide.low > 0


@given(st.lists(st.integers(-3, 3), min_size=6, max_size=20))
def test_an_interval_agrees_with_its_finding(counts: list[int]) -> None:
    (judgement,) = judge([[STEP * count for count in counts]], MARGIN, step=STEP)
    interval = judgement.corrected
    assert interval is not None and judgement.p_value is not None
    assert (interval.low > 0 or interval.high < 0) == (judgement.p_value <= 0.05)
    assert (judgement.finding == "same") == (max(-interval.low, interval.high) <= MARGIN + 1e-12)


def test_all_blocks_a_step_apart_are_a_difference() -> None:
    (judgement,) = judge([[STEP] * 6], MARGIN, step=STEP)
    assert judgement.finding == "more"
    assert judgement.corrected is not None
    assert 0 < judgement.corrected.low < STEP < judgement.corrected.high
    (rare,) = judge([[0.0] * 11 + [STEP]], MARGIN, step=STEP)
    assert rare.finding == "inconclusive"


def coinciding_sweep(samples: int, blocks: int = 6) -> SweepRecord:
    trials = [
        trial(arm, block, step_ms=10.0 if arm == PORTABLE else 8.0, val_accuracy=0.875)
        for block in range(blocks)
        for arm in (PORTABLE, XLA)
    ]
    data = DatasetRecord("digits", "ab" * 32, "scikit-learn", 256, samples)
    return sweep(trials, datasets=(data,))


def accuracy(record: SweepRecord) -> AccuracyComparison:
    (compared,) = (row.accuracy for row in summarise(record).comparisons)
    assert compared is not None
    return compared


def test_a_report_considers_the_number_of_validation_samples() -> None:
    few, many = accuracy(coinciding_sweep(64)), accuracy(coinciding_sweep(400))
    assert (few.verdict, few.step) == ("inconclusive", STEP)
    assert few.difference.high == pytest.approx(STEP * (1 - 0.025 ** (1 / 6)))
    assert (many.verdict, many.step) == ("equal", None)
    assert accuracy(coinciding_sweep(64, blocks=10)).verdict == "equal"
    assert accuracy(replace(coinciding_sweep(64), datasets=())).verdict == "equal"
    shown = " ".join(render(summarise(coinciding_sweep(64)), "text").split())
    assert "(difference -0.007 to +0.007, margin 0.005, one sample 0.01562)" in shown
