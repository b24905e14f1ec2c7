"""Random draws with known truth, to count how often an interval contains it.

The tests compare the rates with the promised ones; `tests.benchmarks.coverage` prints them. All
draws are seeded, so that the rates depend on the code alone.
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
from orchestrator.analysis.stopping import looks
from orchestrator.core.criteria import AutoBlocks

Draws = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Draws]
"""The noise of one round's turns."""

TURNS = 96
LOOKS = planned_looks(12, TURNS)
TRUTH = math.log(1.05)


def smooth(draw: np.random.Generator, count: int, correlation: float) -> Draws:
    """Draw a first-order autoregression of variance 1."""
    noise = draw.normal(size=count) * math.sqrt(1 - correlation**2)
    noise[0] /= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise))


def steps(draw: np.random.Generator, count: int) -> Draws:
    """Draw logs of step times: autocorrelation 0.61 at lag 1 and 0.28 at lag 25, as measured."""
    return 0.16 * (
        math.sqrt(0.34) * draw.normal(size=count)
        + math.sqrt(0.36) * smooth(draw, count, 0.87)
        + math.sqrt(0.30) * smooth(draw, count, 0.997)
    )


def correlated(correlation: float) -> Draw:
    """Return a draw of turns with this correlation of adjacent ones."""
    return lambda draw: 0.02 * smooth(draw, TURNS, correlation)


def drifting(draw: np.random.Generator) -> Draws:
    """Draw equal parts of a slow drift and of independent noise."""
    return 0.02 * (draw.normal(size=TURNS) + smooth(draw, TURNS, 0.98))


def on_one_machine(draw: np.random.Generator) -> Draws:
    """Draw turns of two arms with 50 steps each, in a random order, on one shared machine."""
    slices = steps(draw, TURNS * 100).reshape(TURNS, 2, 50).mean(axis=2)
    return (slices[:, 0] - slices[:, 1]) * draw.choice([-1, 1], TURNS)


def on_separate_machines(draw: np.random.Generator) -> Draws:
    """Draw the same without shared noise: harder than any machine."""
    both = [steps(draw, TURNS * 100).reshape(TURNS, 100)[:, :50].mean(axis=1) for _ in range(2)]
    return both[0] - both[1]


TURNS_OF: dict[str, Draw] = {
    "independent": lambda draw: 0.02 * draw.normal(size=TURNS),
    "heavy tails": lambda draw: 0.015 * draw.standard_t(3, size=TURNS),
    "correlated": correlated(0.3),
    "one machine": on_one_machine,
    "separate machines": on_separate_machines,
}
"""The noise that the interval is designed for."""


def rounds(draw_noise: Draw, interval: float, count: int) -> list[PairedRatio]:
    """Simulate rounds that end by the rule of `orchestrator.execution.interleaved_round`."""
    draw, ended = np.random.default_rng(7), []
    for _ in range(count):
        turns = (TRUTH + draw_noise(draw)).tolist()
        for look in LOOKS:
            ratio = paired_ratio(turns[:look], len(LOOKS))
            assert ratio.interval is not None
            if ratio.interval <= interval:
                break
        ended.append(ratio)
    return ended


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Draw blocks with symmetric, long tails around 0."""
    return 0.05 * rng.standard_t(3, shape)


def one_sided(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    """Draw blocks of mean 0, one in ten of them 50 % slower on one side."""
    slow = rng.random(shape) < 0.1
    return rng.normal(0.0, 0.05, shape) + math.log(1.5) * (slow - 0.1)


@dataclass(frozen=True, slots=True)
class StoppedSweeps:
    """Sweeps that have stopped: their blocks, their means, and if the intervals contain 0."""

    blocks: NDArray[np.int64]
    means: Draws
    covered: NDArray[np.bool_]


def stop_sweeps(drawn: Draws, level: float) -> StoppedSweeps:
    """Take each row's blocks until the half-width of an interval of this level is 1.

    This is the rule of `orchestrator.analysis.stopping`, for all sweeps at once.
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
    return StoppedSweeps(taken, means, covered)
