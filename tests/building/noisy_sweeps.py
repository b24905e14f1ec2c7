"""Simulated sweeps of known truth with the noise of real trials.

`recorded_noise.json` has the milliseconds per step of equal epochs of `image_rows` on torch/fused,
one after another in ten trials of a warm trainer. A sweep's noise is drawn from it in stretches, so
that consecutive trials stay as similar as consecutive epochs were: Politis and Romano, "The
stationary bootstrap", Journal of the American Statistical Association 89(428), 1994.
"""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestrator.analysis.contrasts.contrast import Contrast
from orchestrator.analysis.statistics.batch_means import half_width, planned_looks
from orchestrator.analysis.stopping import PrecisionReached
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, ReportCriteria, Timing
from orchestrator.core.records import SweepRecord
from tests.building.asking import only
from tests.building.hardware import build_cpu_use
from tests.building.records import build_record
from tests.building.trials import build_trial

Logs: TypeAlias = NDArray[np.float64]

STRETCH = 20
"""The mean number of trials in a stretch, longer than their correlation."""

LEAST_SD, MOST_SD = 0.087, 0.20
"""Standard deviations of the log-ratio of adjacent trials: on an idle machine, and at worst."""

_SPEEDS = 30.0
_UNEVEN = 2.0
_AUTO = AutoBlocks(interval=0.06, least=6, most=60)
_CRITERIA = ReportCriteria(auto_blocks=_AUTO)
_TIMING = Timing(interval=0.06, least=12, most=96)


def recorded_noise() -> Logs:
    path = Path(__file__).with_name("recorded_noise.json")
    times = np.asarray(json.loads(path.read_text(encoding="utf-8"))["step_ms"], dtype=np.float64)
    logs = np.log(times)
    return np.asarray(logs - logs.mean())


def adjacent_sd(logs: Logs) -> float:
    return float(np.std(np.diff(logs)))


def draw_noise(logs: Logs, count: int, sd: float, random: np.random.Generator) -> Logs:
    """Draw the noise of consecutive trials whose adjacent log-ratios have about this sd."""
    # Stretches begin anywhere and wrap around; their lengths are geometric. The recording is
    # scaled, so its outliers and the dependence between trials remain.
    places: list[int] = []
    while len(places) < count:
        start, length = random.integers(len(logs)), random.geometric(1 / STRETCH)
        places += [int(start + step) % len(logs) for step in range(length)]
    scale = sd / adjacent_sd(logs)
    return np.asarray(logs[places[:count]] * scale)


def build_noisy_record(
    blocks: int, arms: int, random: np.random.Generator, logs: Logs, speeds: Sequence[float] = ()
) -> SweepRecord:
    """Simulate a sweep whose arms run one after another, `speeds` times as fast as the first."""
    cpu = build_cpu_use("AMD EPYC", 2)
    sides = [Arm(f"torch/fused{f'+again_{i}' if i else ''}", cpu) for i in range(arms)]
    noise = iter(draw_noise(logs, blocks * arms, random.uniform(LEAST_SD, MOST_SD), random))
    trials = []
    for block in range(blocks):
        step_ms = 3.0 * math.exp(random.uniform(0, math.log(_SPEEDS)))
        uneven = math.exp(random.uniform(-math.log(_UNEVEN), math.log(_UNEVEN)))
        for index in random.permutation(arms):
            took_ms = step_ms * math.exp(uneven * next(noise)) / (speeds[index] if speeds else 1)
            trials.append(build_trial(block, sides[index], metrics={"step_ms": took_ms}))
    return build_record(trials, sides, objectives={"step_ms": "minimize"}, impossible=())


def slice_until_narrow(
    truth: float, logs: Logs, random: np.random.Generator
) -> tuple[int, float, float]:
    """Return the turns, their mean log-ratio, and the half-width of its interval."""
    looks = planned_looks(_TIMING.least, _TIMING.most)
    noise = draw_noise(logs, 2 * _TIMING.most, random.uniform(LEAST_SD, MOST_SD), random)
    signs = random.choice((-1.0, 1.0), _TIMING.most)
    ratios = (truth + signs * (noise[1::2] - noise[::2])).tolist()
    for look in looks:
        half = half_width(ratios[:look], len(looks))
        if math.expm1(half) <= _TIMING.interval:
            break
    return look, statistics.fmean(ratios[:look]), half


def draw_until_enough(truth: float, logs: Logs, random: np.random.Generator) -> Contrast:
    record = build_noisy_record(_AUTO.most, 2, random, logs, speeds=(1.0, truth))
    rule = PrecisionReached(_AUTO, record.arms, 1)
    decisions = (rule.add_outcome(finished) for finished in record.trials)
    blocks = next(decision.blocks for decision in decisions if decision is not None)
    trials = tuple(finished for finished in record.trials if finished.block < blocks)
    stopped = replace(record, trials=trials, blocks=blocks, expected_trials=len(trials))
    return only(replace(stopped, criteria=_CRITERIA))
