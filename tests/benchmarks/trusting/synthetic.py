"""Simulated sweeps of equal arms with the noise of real trials, judged by the report's code.

Blocks differ: their times by a factor of thirty, their noise by a factor of four, and their
arms have a random order. Every arm is the same implementation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import summarise
from tests.benchmarks.trusting.findings import Finding, fewest_by_chance, most_by_chance
from tests.benchmarks.trusting.noise import (
    LEAST_SD,
    MOST_SD,
    Logs,
    autocorrelation,
    drawn,
    recorded,
)
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_records import sweep, trial

BLOCKS = (6, 12, 40)
PROMISED = 0.05
"""The promised maximum share of sweeps with a wrong interval or a wrong verdict."""

_SPEEDS = 30.0
_UNEVEN = 2.0


def made(
    blocks: int, arms: int, random: np.random.Generator, logs: Logs, speeds: Sequence[float] = ()
) -> SweepRecord:
    """Simulate a sweep of arms whose trials ran one after another with recorded noise.

    Args:
        blocks: their number.
        arms: their number.
        random: draws times and noise.
        logs: the recorded noise.
        speeds: how many times as fast as the first each arm is; without them all are equal.
    """
    cpu = on_cpu("AMD EPYC", 2)
    sides = [Arm(f"torch/fused{f'+again_{i}' if i else ''}", cpu) for i in range(arms)]
    noise = iter(drawn(logs, blocks * arms, random.uniform(LEAST_SD, MOST_SD), random))
    trials = []
    for block in range(blocks):
        step_ms = 3.0 * math.exp(random.uniform(0, math.log(_SPEEDS)))
        uneven = math.exp(random.uniform(-math.log(_UNEVEN), math.log(_UNEVEN)))
        for index in random.permutation(arms):
            took_ms = step_ms * math.exp(uneven * next(noise)) / (speeds[index] if speeds else 1)
            trials.append(trial(sides[index], block, metrics={"step_ms": took_ms}))
    return sweep(trials, sides, objectives={"step_ms": "minimize"}, impossible=())


def run(sweeps: int = 400, speeds: Sequence[float] = ()) -> list[Finding]:
    """Simulate sweeps of two and of four arms, which are equal unless `speeds` says otherwise."""
    logs, random = recorded(), np.random.default_rng(1)
    two = [
        summarise(made(BLOCKS[number % 3], 2, random, logs, speeds)).comparisons[0]
        for number in range(sweeps)
    ]
    four = [
        summarise(made(BLOCKS[number % 3], 4, random, logs, [*speeds, *speeds])).comparisons
        for number in range(sweeps)
    ]
    covering = sum(
        one.speedup is not None and one.speedup.low <= 1 <= one.speedup.high for one in two
    )
    wrong = [one.verdict in ("faster", "slower") for one in two]
    any_wrong = sum(
        any(one.verdict in ("faster", "slower") for one in comparisons) for comparisons in four
    )
    least, most = fewest_by_chance(sweeps, 1 - PROMISED), most_by_chance(sweeps, PROMISED)
    lags = ", ".join(f"{autocorrelation(logs, lag):.2f} at {lag}" for lag in (1, 5, 25))
    return [
        Finding(
            f"at least {least} of {sweeps} sweeps of two equal arms have an interval that covers"
            f" 1, at most {most} a verdict of a difference",
            f"{covering} cover it; {sum(wrong)} verdicts of a difference",
            covering >= least and sum(wrong) <= most,
            [
                f"noise: {len(logs)} recorded epochs (autocorrelation {lags}), drawn in stretches;"
                f" log-ratios of adjacent trials have sd {LEAST_SD} to {MOST_SD}, times 0.5 to 2 by"
                " block",
                *(
                    f"{count} blocks: {sum(wrong[at::3])} of {len(wrong[at::3])} with a verdict of"
                    " a difference"
                    for at, count in enumerate(BLOCKS)
                ),
            ],
        ),
        Finding(
            f"at most {most} of {sweeps} sweeps of four equal arms have a verdict of a difference",
            f"{any_wrong} have one",
            any_wrong <= most,
        ),
    ]
