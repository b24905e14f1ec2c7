"""Seeded random draws with known truth, to count how often an interval contains it."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import stdtrit

from orchestrator.analysis.statistics.batch_means import PairedRatio, paired_ratio, planned_looks
from orchestrator.analysis.stopping import looks
from orchestrator.core.criteria import AutoBlocks

Draws = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Draws]

TURNS = 96
LOOKS = planned_looks(12, TURNS)
TRUTH = math.log(1.05)


def smooth(draw: np.random.Generator, count: int, correlation: float) -> Draws:
    noise = draw.normal(size=count) * math.sqrt(1 - correlation**2)
    noise[0] /= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise))


def correlated(correlation: float) -> Draw:
    return lambda draw: 0.02 * smooth(draw, TURNS, correlation)


def drifting(draw: np.random.Generator) -> Draws:
    return 0.02 * (draw.normal(size=TURNS) + smooth(draw, TURNS, 0.98))


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
    return 0.05 * rng.standard_t(3, shape)


def one_sided(rng: np.random.Generator, shape: tuple[int, ...]) -> Draws:
    slow = rng.random(shape) < 0.1
    return rng.normal(0.0, 0.05, shape) + math.log(1.5) * (slow - 0.1)


def stop_sweeps(drawn: Draws, level: float) -> tuple[NDArray[np.bool_], Draws]:
    """Take each row's blocks until the half-width is 1; return if intervals hold 0, and means."""
    sweeps, most = drawn.shape
    covered, means, is_open = np.zeros(sweeps, bool), np.zeros(sweeps), np.ones(sweeps, bool)
    for blocks in looks(AutoBlocks(most=most)):
        seen = drawn[:, :blocks]
        mean, error = seen.mean(1), seen.std(1, ddof=1) / math.sqrt(blocks)
        half = float(stdtrit(blocks - 1, 0.5 + level / 2)) * error
        stops = is_open & ((half <= 1.0) | (blocks == most))
        covered[stops], means[stops] = np.abs(mean)[stops] <= half[stops], mean[stops]
        is_open &= ~stops
    assert not is_open.any()
    return covered, means
