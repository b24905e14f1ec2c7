"""What the benchmark of bias makes of its measurements, and the bounds that are made of that."""

import itertools
import json
import math
from dataclasses import replace

import pytest

from infra.benchmarks import bias_curve
from infra.benchmarks.bias import LOADS, QUIET, Measured, biases
from orchestrator.analysis.statistics.bias import bias_from_json


def test_curves_have_the_largest_bias_of_each_load() -> None:
    rows = [
        {"mode": "full", "kind": "within", "where": "one core", "dose": dose, **figures}
        for dose, figures in (
            (10, {"others_pct": 4.0, "at_most": 1.05}),
            (10, {"others_pct": 6.0, "at_most": 1.2}),
            (100, {"others_pct": 30.0, "at_most": 2.0}),
        )
    ]
    environment = {"cpus": "2", "cpu": "AMD EPYC", "date": "2026-11-27"}
    data = json.loads(json.dumps(bias_curve.curves({"biases": rows, "environment": environment})))
    made = bias_from_json(data)
    assert made.up_to_pct == 30.0
    (only,) = made.curves
    factors = {point.dose_pct: point.factor for point in only.points}
    assert factors == pytest.approx({10: 1.2, 100: 2.0}, abs=0.001)


SLOWDOWNS = {"tensorflow/portable": 1.5, "jax/portable": 1.2, "torch/fused": 8.0}
"""By how much each arm is slowed down by the largest load of one core; less by the others."""


def measured_times(spread: float) -> list[Measured]:
    """Return what the benchmark measures of arms that are slowed down in proportion to a load."""
    times = []
    for repeat, load, (arm, slowdown) in itertools.product(
        range(3), (QUIET, *LOADS), SLOWDOWNS.items()
    ):
        factor = slowdown ** (load.dose / 200)
        noise = math.exp(spread * (repeat - 1))
        others_pct = load.dose / 4
        times.append(
            Measured(
                repeat, 320, "full", arm, load.where, load.dose, 10 * factor * noise, others_pct
            )
        )
    return times


def test_the_benchmark_finds_how_far_each_load_moves_each_ratio() -> None:
    found = {(one.name, one.where, one.dose): one for one in biases(measured_times(spread=0.0))}
    between = found["torch/fused against tensorflow/portable", "each core", 200]
    assert (between.kind, between.others_pct) == ("between barriers", 50.0)
    assert [between.bias, between.at_most] == pytest.approx([8.0 / 1.5] * 2)
    alone = found["jax/portable", "one core", 100]
    assert alone.kind == "alone"
    assert alone.bias == pytest.approx(math.sqrt(1.2))
    assert len(found) == len(LOADS) * (3 + 3)


def test_a_bias_that_was_measured_with_noise_has_a_higher_bound() -> None:
    """The repeats differ by a common factor, which cancels within a part, and by a little else."""
    times = measured_times(spread=0.2)
    times = [
        replace(one, step_ms=one.step_ms * (1.05 if (one.repeat + one.dose) % 2 else 1.0))
        for one in times
    ]
    largest = {one.name: one for one in biases(times) if (one.where, one.dose) == ("one core", 75)}
    alone = largest["torch/fused"]
    assert alone.bias == pytest.approx(8.0 ** (75 / 200), rel=0.06)
    assert 1.02 < alone.at_most / alone.bias < 1.2
