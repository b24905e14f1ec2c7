"""Draws with known truth, on which it is counted how often an interval holds it.

The tests hold the rates against what is promised; `tests.benchmarks.coverage` tells them. All are
seeded: the rates are those of the code, not of luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import stdtrit

from orchestrator.analysis.statistics.batch_means import PairedRatio, paired_ratio, planned_looks
from orchestrator.analysis.statistics.stopping_looks import looks
from orchestrator.core.criteria import AutoBlocks

Draws = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Draws]
"""The noise of one round's turns."""

TURNS = 96
LOOKS = planned_looks(12, TURNS)
TRUTH = math.log(1.05)


def smooth(draw: np.random.Generator, count: int, like_the_last: float) -> Draws:
    """A first-order autoregression of variance 1."""
    noise = draw.normal(size=count) * math.sqrt(1 - like_the_last**2)
    noise[0] /= math.sqrt(1 - like_the_last**2)
    return np.asarray(lfilter([1.0], [1.0, -like_the_last], noise))


def steps(draw: np.random.Generator, count: int) -> Draws:
    """Logarithms of step times: autocorrelation 0.61 at lag 1 and 0.28 at lag 25, as measured."""
    return 0.16 * (
        math.sqrt(0.34) * draw.normal(size=count)
        + math.sqrt(0.36) * smooth(draw, count, 0.87)
        + math.sqrt(0.30) * smooth(draw, count, 0.997)
    )


def alike(like_the_last: float) -> Draw:
    """Turns that resemble the last one so much."""
    return lambda draw: 0.02 * smooth(draw, TURNS, like_the_last)


def drifting(draw: np.random.Generator) -> Draws:
    """As much of a slow drift as of noise from turn to turn."""
    return 0.02 * (draw.normal(size=TURNS) + smooth(draw, TURNS, 0.98))


def on_one_machine(draw: np.random.Generator) -> Draws:
    """Two arms of 50 steps in each turn, in a random order, on a machine that both share."""
    slices = steps(draw, TURNS * 100).reshape(TURNS, 2, 50).mean(axis=2)
    return (slices[:, 0] - slices[:, 1]) * draw.choice([-1, 1], TURNS)


def each_for_itself(draw: np.random.Generator) -> Draws:
    """The same, with nothing in common: harder than any machine."""
    both = [steps(draw, TURNS * 100).reshape(TURNS, 100)[:, :50].mean(axis=1) for _ in range(2)]
    return both[0] - both[1]


TURNS_OF: dict[str, Draw] = {
    "independent": lambda draw: 0.02 * draw.normal(size=TURNS),
    "heavy tails": lambda draw: 0.015 * draw.standard_t(3, size=TURNS),
    "alike": alike(0.3),
    "one machine": on_one_machine,
    "each for itself": each_for_itself,
}
"""What the interval is made for."""


def rounds(draw_noise: Draw, interval: float, count: int) -> list[PairedRatio]:
    """Rounds that end as `orchestrator.execution.interleaved_round` ends them."""
    draw, ended = np.random.default_rng(7), []
    for _ in range(count):
        turns = (TRUTH + draw_noise(draw)).tolist()
        for look in LOOKS:
            found = paired_ratio(turns[:look], len(LOOKS))
            assert found.interval is not None
            if found.interval <= interval:
                break
        ended.append(found)
    return ended


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Blocks with even, long tails around 0."""
    return 0.05 * rng.standard_t(3, shape)


def one_sided(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """One block in ten half as slow again, on one side only; the mean of all is 0."""
    slow = rng.random(shape) < 0.1
    return rng.normal(0.0, 0.05, shape) + math.log(1.5) * (slow - 0.1)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Sweeps that have stopped: after how many blocks, with which mean, and whether it held 0."""

    blocks: NDArray[np.int64]
    means: Draws
    covered: NDArray[np.bool_]


def stopped(drawn: Draws, level: float) -> Stopped:
    """Each row's blocks around 0, until the half-width of an interval of this level is 1.

    The rule of `orchestrator.analysis.stopping`, over all sweeps at once.
    """
    sweeps, most = drawn.shape
    covered, means = np.zeros(sweeps, bool), np.zeros(sweeps)
    taken, open_ = np.zeros(sweeps, int), np.ones(sweeps, bool)
    for blocks in looks(AutoBlocks(most=most)):
        seen = drawn[:, :blocks]
        mean, error = seen.mean(1), seen.std(1, ddof=1) / math.sqrt(blocks)
        half = float(stdtrit(blocks - 1, 0.5 + level / 2)) * error
        stops = open_ & ((half <= 1.0) | (blocks == most))
        covered[stops] = np.abs(mean)[stops] <= half[stops]
        means[stops], taken[stops] = mean[stops], blocks
        open_ &= ~stops
    assert not open_.any()
    return Stopped(taken, means, covered)
