"""Simulated sweeps of equal arms with the noise of real trials, judged by the report's code.

Blocks differ: their times by a factor of thirty, their noise by a factor of four, and their
arms have a random order. Every arm is the same implementation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, Kernel, Outcome, Trial
from orchestrator.report.render import summarise
from tests.benchmarks.trusting.findings import Finding, fewest_by_chance, most_by_chance
from tests.benchmarks.trusting.noise import LEAST_SD, MOST_SD, autocorrelation, drawn, recorded
from tests.orchestrator.sample_hardware import on_cpu

BLOCKS = (6, 12, 40)
PROMISED = 0.05
"""The promised maximum share of sweeps with a wrong interval or a wrong verdict."""

_CPU = on_cpu("AMD EPYC", 2)
_SPEEDS = 30.0
_UNEVEN = 2.0
_KERNEL = Kernel("fused", "fused", "by construction")


@dataclass(frozen=True, slots=True)
class Course:
    """The number of sweeps to simulate, and of equal arms."""

    sweeps: int = 400
    arms: int = 2
    seed: int = 1


def arms(count: int) -> tuple[Arm, ...]:
    """Return equal arms with different names."""
    return tuple(Arm(f"torch/fused{f'+again_{i}' if i else ''}", _CPU) for i in range(count))


def made(
    blocks: int, count: int, random: np.random.Generator, logs: np.ndarray[Any, Any]
) -> SweepRecord:
    """Simulate a sweep of equal arms whose trials ran one after another with recorded noise."""
    sides = arms(count)
    noise = iter(drawn(logs, blocks * count, random.uniform(LEAST_SD, MOST_SD), random))
    trials: list[FinishedTrial] = []
    for block in range(blocks):
        step_ms = 3.0 * math.exp(random.uniform(0, math.log(_SPEEDS)))
        uneven = math.exp(random.uniform(-math.log(_UNEVEN), math.log(_UNEVEN)))
        for index in random.permutation(count):
            took_ms = step_ms * math.exp(uneven * next(noise))
            trials.append(_trial(sides[index], block, took_ms))
    return SweepRecord(
        name="synthetic",
        generation=1,
        run_id="parent",
        workload="image_rows",
        objectives={"step_ms": "minimize"},
        arms=sides,
        impossible=(),
        blocks=blocks,
        repeats=1,
        expected_trials=len(trials),
        trials=tuple(trials),
    )


def _trial(arm: Arm, block: int, step_ms: float) -> FinishedTrial:
    key = f"{arm.implementation}-{block}"
    outcome = Outcome(
        "complete", 0.0, 0.0, metrics={"step_ms": step_ms}, kernel=_KERNEL, trainer_trials=1
    )
    trial = Trial(key, block, {"units": 8 * (block + 1)}, arm, 0, 0)
    return FinishedTrial(trial, outcome, run_id=key)


def summaries(course: Course) -> Iterator[ReportSummary]:
    """Yield the report's own summary of each sweep."""
    logs = recorded()
    random = np.random.default_rng(course.seed)
    for number in range(course.sweeps):
        yield summarise(made(BLOCKS[number % len(BLOCKS)], course.arms, random, logs))


def run(sweeps: int = 400) -> list[Finding]:
    """Simulate sweeps of two and of four equal arms."""
    return [_two(Course(sweeps)), *_several(Course(sweeps, arms=4, seed=2))]


def _two(course: Course) -> Finding:
    comparisons = [summary.comparisons[0] for summary in summaries(course)]
    covering = sum(
        comparison.speedup is not None and comparison.speedup.low <= 1 <= comparison.speedup.high
        for comparison in comparisons
    )
    wrong = sum(comparison.verdict in ("faster", "slower") for comparison in comparisons)
    least = fewest_by_chance(course.sweeps, 1 - PROMISED)
    most = most_by_chance(course.sweeps, PROMISED)
    return Finding(
        "synthetic",
        f"at least {least} of {course.sweeps} sweeps of two equal arms have an interval that covers"
        f" 1, at most {most} a verdict of a difference",
        f"{covering} cover it; {wrong} verdicts of a difference",
        covering >= least and wrong <= most,
        (
            _describe_noise(),
            *_by_blocks(
                [len(comparison.pairs) for comparison in comparisons],
                [comparison.verdict in ("faster", "slower") for comparison in comparisons],
            ),
        ),
    )


def _several(course: Course) -> Iterator[Finding]:
    wrong = [
        any(comparison.verdict in ("faster", "slower") for comparison in summary.comparisons)
        for summary in summaries(course)
    ]
    most = most_by_chance(course.sweeps, PROMISED)
    yield Finding(
        "synthetic",
        f"at most {most} of {course.sweeps} sweeps of {course.arms} equal arms have any verdict of"
        " a difference",
        f"{sum(wrong)} have one",
        sum(wrong) <= most,
    )


def _by_blocks(blocks: Sequence[int], wrong: Sequence[bool]) -> Iterator[str]:
    for count in BLOCKS:
        of = [missed for n, missed in zip(blocks, wrong, strict=True) if n == count]
        if of:
            yield f"{count} blocks: {sum(of)} of {len(of)} with a verdict of a difference"


def _describe_noise() -> str:
    logs = recorded()
    lags = ", ".join(f"{autocorrelation(logs, lag):.2f} at {lag}" for lag in (1, 5, 25))
    return (
        f"noise: {len(logs)} recorded epochs (autocorrelation {lags}), drawn in stretches;"
        f" log-ratios of adjacent trials have sd {LEAST_SD} to {MOST_SD}, times 0.5 to 2 by block"
    )
