"""The interval of a paired ratio from turns, on draws whose truth is known.

Each of the draws is seeded: the rates below are those of the code, not of luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from orchestrator.report.slices import Paired, paired, planned_looks

Draw = Callable[[np.random.Generator], NDArray[np.float64]]
TURNS = 96
LOOKS = planned_looks(12, TURNS)
ROUNDS = 400
TRUTH = math.log(1.05)


def smooth(draw: np.random.Generator, count: int, like_the_last: float) -> NDArray[np.float64]:
    """A first-order autoregression of variance 1."""
    noise = draw.normal(size=count) * math.sqrt(1 - like_the_last**2)
    noise[0] /= math.sqrt(1 - like_the_last**2)
    return np.asarray(lfilter([1.0], [1.0, -like_the_last], noise))


def steps(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Logarithms of step times: autocorrelation 0.61 at lag 1 and 0.28 at lag 25, as measured."""
    return 0.16 * (
        math.sqrt(0.34) * draw.normal(size=count)
        + math.sqrt(0.36) * smooth(draw, count, 0.87)
        + math.sqrt(0.30) * smooth(draw, count, 0.997)
    )


def on_one_machine(draw: np.random.Generator) -> NDArray[np.float64]:
    """Two arms of 50 steps in each turn, in a random order, on a machine that both share."""
    slices = steps(draw, TURNS * 100).reshape(TURNS, 2, 50).mean(axis=2)
    return (slices[:, 0] - slices[:, 1]) * draw.choice([-1, 1], TURNS)


def each_for_itself(draw: np.random.Generator) -> NDArray[np.float64]:
    """The same, with nothing in common: harder than any machine."""
    both = [steps(draw, TURNS * 100).reshape(TURNS, 100)[:, :50].mean(axis=1) for _ in range(2)]
    return both[0] - both[1]


DRAWS: dict[str, Draw] = {
    "independent": lambda draw: 0.02 * draw.normal(size=TURNS),
    "heavy tails": lambda draw: 0.015 * draw.standard_t(3, size=TURNS),
    "alike": lambda draw: 0.02 * smooth(draw, TURNS, 0.3),
    "one machine": on_one_machine,
    "each for itself": each_for_itself,
}


def rounds(draw_noise: Draw, interval: float) -> list[Paired]:
    """Rounds that end as `orchestrator.racing` ends them."""
    draw, ended = np.random.default_rng(7), []
    for _ in range(ROUNDS):
        turns = (TRUTH + draw_noise(draw)).tolist()
        for look in LOOKS:
            found = paired(turns[:look], len(LOOKS))
            assert found.interval is not None
            if found.interval <= interval:
                break
        ended.append(found)
    return ended


@pytest.mark.parametrize("interval", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("name", DRAWS)
def test_the_interval_holds_the_truth_wherever_a_round_ends(name: str, interval: float) -> None:
    ended = rounds(DRAWS[name], interval)
    held = sum(abs(each.log_ratio - TRUTH) <= (each.half_width or 0.0) for each in ended)
    assert held >= 0.95 * ROUNDS
    mean = math.fsum(each.log_ratio for each in ended) / ROUNDS
    spread = float(np.std([each.log_ratio for each in ended]))
    assert abs(mean - TRUTH) < 4 * spread / math.sqrt(ROUNDS), "ending pulls it somewhere"
    ends = {each.turns for each in ended}
    assert ends <= set(LOOKS)


def test_rounds_end_early_where_turns_are_alike_and_late_where_not() -> None:
    def mean_turns(interval: float) -> float:
        return math.fsum(each.turns for each in rounds(DRAWS["independent"], interval)) / ROUNDS

    assert 12 <= mean_turns(0.05) < mean_turns(0.02) < 24 < mean_turns(0.01) < 80


def test_strong_resemblance_from_turn_to_turn_widens_the_interval() -> None:
    draw = np.random.default_rng(7)
    held, naive = 0, 0
    for _ in range(ROUNDS):
        noise = (0.02 * smooth(draw, TURNS, 0.61)).tolist()
        found = paired(noise)
        held += abs(found.log_ratio) <= (found.half_width or 0.0)
        naive += abs(found.log_ratio) <= 1.985 * float(np.std(noise, ddof=1)) / math.sqrt(TURNS)
    assert naive < 0.75 * ROUNDS, "the turns' own spread promises too much"
    assert held > 0.91 * ROUNDS


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
    once, often = paired(turns), paired(turns, looks=7)
    assert once.log_ratio == often.log_ratio
    assert (often.half_width or 0) > 1.3 * (once.half_width or 0)


def test_turns_that_fill_no_batch_count_in_the_mean() -> None:
    found = paired([1.0, *[0.0] * 20])
    assert found.turns == 21
    assert found.log_ratio == pytest.approx(1 / 21)
    assert found.half_width == 0.0


def test_one_turn_has_no_interval() -> None:
    assert paired([0.5]) == Paired(1, 0.5, None)
    assert paired([0.5]).interval is None


def test_an_interval_is_a_share_of_the_ratio() -> None:
    assert Paired(12, 0.0, math.log(1.02)).interval == pytest.approx(0.02)
