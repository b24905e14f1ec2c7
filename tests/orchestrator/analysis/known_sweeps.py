"""Sweeps with known truth: step times that follow a law of the size, with noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from tests.orchestrator.sample_records import PORTABLE, XLA, sweep, trial

UNITS = (16, 24, 32, 48, 64, 96, 128, 192)

StepTime = Callable[[Config], float]


def obeying(
    laws: Mapping[Arm, StepTime],
    configs: Sequence[Config],
    *,
    noise: float = 0.04,
    seed: int = 0,
    **metrics: Callable[[Arm, random.Random], float],
) -> SweepRecord:
    """Return trials of every arm at every config, with further `metrics` from their functions."""
    draw = random.Random(seed)
    trials = [
        trial(
            arm,
            block,
            config=config,
            metrics={
                "step_ms": law(config) * draw.lognormvariate(0, noise),
                **{name: draw_metric(arm, draw) for name, draw_metric in metrics.items()},
            },
        )
        for block, config in enumerate(configs)
        for arm, law in laws.items()
    ]
    return sweep(trials, tuple(laws))


def crossing_at(size: float, slope: float = 0.3, param: str = "units") -> dict[Arm, StepTime]:
    """Return laws by which XLA is (param / size) ^ slope times as fast as PORTABLE."""
    return {
        PORTABLE: lambda config: 0.5 * float(config[param]),
        XLA: lambda config: 0.5 * float(config[param]) * (float(config[param]) / size) ** -slope,
    }
