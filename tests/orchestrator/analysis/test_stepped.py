"""Accuracies over few validation samples: what blocks that happen to coincide do not show."""

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


def losing(share: float, blocks: int, arms: int = 1) -> NDArray[np.float64]:
    """Differences of arms that lose one validation sample in a share of their blocks."""
    rng = np.random.default_rng([blocks, arms])
    return np.where(rng.random((SWEEPS, arms, blocks)) < share, -STEP, 0.0)


def called_same(draws: NDArray[np.float64], step: float | None) -> float:
    """The share of reports that call some arm the same."""
    found = [
        any(each.finding == "same" for each in judge(one.tolist(), MARGIN, step=step))
        for one in draws
    ]
    return sum(found) / len(found)


def at_most(share: float) -> float:
    return share + 4 * math.sqrt(share * (1 - share) / SWEEPS)


@pytest.mark.parametrize("arms", [1, 4])
@pytest.mark.parametrize("blocks", [6, 8, 12, 16])
def test_an_arm_that_loses_the_margin_is_seldom_called_the_same(blocks: int, arms: int) -> None:
    """In at most 2.5 % of sweeps, by chance alone; one that loses a third of a step is at it."""
    assert called_same(losing(EDGE, blocks, arms), STEP) <= at_most(0.025)


@pytest.mark.parametrize(("blocks", "wrong"), [(6, 0.099), (12, 0.065), (16, 0.073)])
def test_spread_alone_would_promise_too_much(blocks: int, wrong: float) -> None:
    """Why steps count: six blocks without a lost sample happen in a tenth of such sweeps."""
    assert called_same(losing(EDGE, blocks), None) == pytest.approx(wrong, abs=0.02)


@pytest.mark.parametrize(("blocks", "least"), [(10, 0.75), (20, 0.9), (40, 0.99)])
def test_an_arm_that_seldom_differs_is_found_to_be_the_same(blocks: int, least: float) -> None:
    """One sample in 50 blocks: with 10 blocks or more that can be shown."""
    assert called_same(losing(0.02, blocks), STEP) >= least


@pytest.mark.parametrize(
    ("blocks", "finding"), [(6, "inconclusive"), (9, "inconclusive"), (10, "same")]
)
def test_blocks_that_all_coincide_need_to_be_enough(blocks: int, finding: str) -> None:
    """As 2 (1 - margin / step) ^ n says: 0.20, 0.062 and 0.042."""
    (found,) = judge([[0.0] * blocks], MARGIN, step=STEP)
    assert found.finding == finding
    assert found.corrected is not None
    half_width = STEP * (1 - 0.025 ** (1 / blocks))
    assert (found.corrected.low, found.corrected.high) == pytest.approx((-half_width, half_width))
    more = found.blocks_needed.more_blocks + blocks if found.blocks_needed else 10
    assert more == 10


def test_a_step_within_the_margin_changes_nothing() -> None:
    assert coarse_step([200], [0.5], MARGIN) is None
    assert coarse_step([199], [100 / 199], MARGIN) == 1 / 199
    assert coarse_step([10_000], [0.5], 1e-5) == 1e-4


def test_a_step_is_only_where_accuracies_come_in_it() -> None:
    counted = [count / 64 for count in (31, 40, 64)]
    single = [float(np.float32(value)) for value in counted]
    assert coarse_step([64], counted, MARGIN) == STEP
    assert coarse_step([64, 128, 0], single, MARGIN) == STEP
    assert coarse_step([64], [*counted, 0.5013], MARGIN) is None  # told of tokens
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
def test_an_interval_still_shows_what_is_found(counts: list[int]) -> None:
    (found,) = judge([[STEP * count for count in counts]], MARGIN, step=STEP)
    shown = found.corrected
    assert shown is not None and found.p_value is not None
    assert (shown.low > 0 or shown.high < 0) == (found.p_value <= 0.05)
    assert (found.finding == "same") == (max(-shown.low, shown.high) <= MARGIN + 1e-12)


def test_all_blocks_a_step_apart_are_a_difference() -> None:
    (found,) = judge([[STEP] * 6], MARGIN, step=STEP)
    assert found.finding == "more"
    assert found.corrected is not None
    assert 0 < found.corrected.low < STEP < found.corrected.high
    (rare,) = judge([[0.0] * 11 + [STEP]], MARGIN, step=STEP)
    assert rare.finding == "inconclusive"


def coinciding(samples: int, blocks: int = 6) -> SweepRecord:
    trials = [
        trial(arm, block, step_ms=10.0 if arm == PORTABLE else 8.0, val_accuracy=0.875)
        for block in range(blocks)
        for arm in (PORTABLE, XLA)
    ]
    data = DatasetRecord("digits", "ab" * 32, "scikit-learn", 256, samples)
    return sweep(trials, datasets=(data,))


def accuracy(record: SweepRecord) -> AccuracyComparison:
    (found,) = (each.accuracy for each in summarise(record).comparisons)
    assert found is not None
    return found


def test_a_report_knows_of_how_many_samples_an_accuracy_is() -> None:
    few, many = accuracy(coinciding(64)), accuracy(coinciding(400))
    assert (few.verdict, few.step) == ("inconclusive", STEP)
    assert few.difference.high == pytest.approx(STEP * (1 - 0.025 ** (1 / 6)))
    assert (many.verdict, many.step) == ("equal", None)
    assert accuracy(coinciding(64, blocks=10)).verdict == "equal"
    assert accuracy(replace(coinciding(64), datasets=())).verdict == "equal"
    shown = " ".join(render(summarise(coinciding(64)), "text").split())
    assert "(difference -0.007 to +0.007, margin 0.005, one sample 0.01562)" in shown
