"""The interval of a paired ratio from turns, on draws whose truth is known.

Each of the draws is seeded: the rates below are those of the code, not of luck.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.analysis.statistics.batch_means import PairedRatio, paired_ratio, planned_looks
from tests.benchmarks.trusting.findings import fewest_by_chance, most_by_chance
from tests.orchestrator.analysis.random_draws import LOOKS, TRUTH, TURNS, TURNS_OF, rounds, smooth
from tests.profiles import draws

ROUNDS = draws(100, 400)


@pytest.mark.parametrize("interval", [0.01, 0.05])
@pytest.mark.parametrize("name", TURNS_OF)
def test_the_interval_holds_the_truth_wherever_a_round_ends(name: str, interval: float) -> None:
    ended = rounds(TURNS_OF[name], interval, ROUNDS)
    held = sum(abs(ratio.log_ratio - TRUTH) <= (ratio.half_width or 0.0) for ratio in ended)
    assert held >= fewest_by_chance(ROUNDS, 0.95)
    mean = math.fsum(ratio.log_ratio for ratio in ended) / ROUNDS
    spread = float(np.std([ratio.log_ratio for ratio in ended]))
    assert abs(mean - TRUTH) < 4 * spread / math.sqrt(ROUNDS), "ending pulls it somewhere"
    ends = {ratio.turns for ratio in ended}
    assert ends <= set(LOOKS)


def test_rounds_end_early_where_turns_are_alike_and_late_where_not() -> None:
    draw = TURNS_OF["independent"]

    def mean_turns(interval: float) -> float:
        return math.fsum(ratio.turns for ratio in rounds(draw, interval, ROUNDS)) / ROUNDS

    assert 12 <= mean_turns(0.05) < mean_turns(0.02) < 24 < mean_turns(0.01) < 80


def test_strong_resemblance_from_turn_to_turn_widens_the_interval() -> None:
    draw = np.random.default_rng(7)
    held, naive = 0, 0
    for _ in range(ROUNDS):
        noise = (0.02 * smooth(draw, TURNS, 0.61)).tolist()
        ratio = paired_ratio(noise)
        held += abs(ratio.log_ratio) <= (ratio.half_width or 0.0)
        naive += abs(ratio.log_ratio) <= 1.985 * float(np.std(noise, ddof=1)) / math.sqrt(TURNS)
    assert naive < most_by_chance(ROUNDS, 0.75), "the turns' own spread promises too much"
    assert held > fewest_by_chance(ROUNDS, 0.91)


def test_looks_are_few_and_a_factor_apart() -> None:
    assert LOOKS == (12, 17, 24, 34, 48, 68, 96)
    assert planned_looks(6, 6) == (6,)
    assert planned_looks(3, 4) == (3, 4)
    for least in range(1, 40):
        for most in range(least, 200, 7):
            looks = planned_looks(least, most)
            assert looks[-1] == most
            assert least <= looks[0]
            assert sorted(set(looks)) == list(looks)


def test_each_of_several_looks_promises_less() -> None:
    turns = [0.01 * (-1) ** turn + 0.001 * turn for turn in range(24)]
    once, often = paired_ratio(turns), paired_ratio(turns, looks=7)
    assert once.log_ratio == often.log_ratio
    assert (often.half_width or 0) > 1.3 * (once.half_width or 0)


def test_turns_that_fill_no_batch_count_in_the_mean() -> None:
    ratio = paired_ratio([1.0, *[0.0] * 20])
    assert ratio.turns == 21
    assert ratio.log_ratio == pytest.approx(1 / 21)
    assert ratio.half_width == 0.0


def test_one_turn_has_no_interval() -> None:
    assert paired_ratio([0.5]) == PairedRatio(1, 0.5, None)
    assert paired_ratio([0.5]).interval is None
    assert PairedRatio(12, 0.0, math.log(1.02)).interval == pytest.approx(0.02)
