"""Test the interval of a paired ratio from turns, on draws whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.analysis.statistics.batch_means import PairedRatio, paired_ratio, planned_looks
from tests.benchmarks.trusting.findings import fewest_by_chance
from tests.orchestrator.analysis.random_draws import LOOKS, TRUTH, TURNS_OF, rounds
from tests.profiles import draws

ROUNDS = draws(100, 400)


@pytest.mark.parametrize("interval", [0.01, 0.05])
@pytest.mark.parametrize("name", TURNS_OF)
def test_the_interval_covers_the_truth_wherever_a_round_ends(name: str, interval: float) -> None:
    ended = rounds(TURNS_OF[name], interval, ROUNDS)
    covered = sum(abs(ratio.log_ratio - TRUTH) <= (ratio.half_width or 0.0) for ratio in ended)
    assert covered >= fewest_by_chance(ROUNDS, 0.95)
    means = [ratio.log_ratio for ratio in ended]
    assert abs(np.mean(means) - TRUTH) < 4 * np.std(means) / math.sqrt(ROUNDS)  # no bias
    assert {ratio.turns for ratio in ended} <= set(LOOKS)


def test_rounds_end_early_if_turns_scatter_little() -> None:
    early, later, late = (
        np.mean([ratio.turns for ratio in rounds(TURNS_OF["independent"], interval, ROUNDS)])
        for interval in (0.05, 0.02, 0.01)
    )
    assert 12 <= early < later < 24 < late < 80


def test_several_looks_widen_the_interval() -> None:
    assert LOOKS == (12, 17, 24, 34, 48, 68, 96)
    assert (planned_looks(6, 6), planned_looks(3, 4)) == ((6,), (3, 4))
    turns = [0.01 * (-1) ** turn + 0.001 * turn for turn in range(24)]
    once, often = paired_ratio(turns), paired_ratio(turns, looks=7)
    assert once.log_ratio == often.log_ratio
    assert (often.half_width or 0) > 1.3 * (once.half_width or 0)


def test_few_turns() -> None:
    ratio = paired_ratio([1.0, *[0.0] * 20])  # the first one fills no batch, but counts in the mean
    assert (ratio.turns, ratio.half_width) == (21, 0.0)
    assert ratio.log_ratio == pytest.approx(1 / 21)
    one = paired_ratio([0.5])
    assert (one, one.interval) == (PairedRatio(1, 0.5, None), None)
    assert PairedRatio(12, 0.0, math.log(1.02)).interval == pytest.approx(0.02)
