"""Test the Pareto front against its definition, and on trials."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.analysis.arms.best_configs import (
    non_dominated,
    pareto_front,
    trade_offs,
)
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from tests.orchestrator.sample_records import PORTABLE, XLA, sweep, trial

# Few values, so that ties and equal points come up
COSTS = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0])] * n), max_size=30)
)


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@given(COSTS)
def test_the_front_is_exactly_what_nothing_dominates(costs: list[tuple[float, ...]]) -> None:
    expected = [
        i for i, cost in enumerate(costs) if not any(dominates(other, cost) for other in costs)
    ]
    assert non_dominated(costs) == expected


def test_directions_and_arms() -> None:
    record = sweep(
        [
            trial(PORTABLE, 0, val_accuracy=0.9, step_ms=20.0),
            trial(XLA, 0, val_accuracy=0.9, step_ms=15.0),
            trial(PORTABLE, 1, val_accuracy=0.95, step_ms=30.0),
            trial(XLA, 1, val_accuracy=0.94, step_ms=31.0),
        ]
    )
    front = pareto_front(record)
    assert [(p.arm, p.block) for p in front.points] == [(PORTABLE, 1), (XLA, 0)]
    assert (front.tried, front.left_out) == (4, 0)


def test_a_point_is_the_mean_over_its_repeats_and_names_its_runs() -> None:
    record = sweep(
        [trial(XLA, 0, 0, step_ms=10.0), trial(XLA, 0, 1, step_ms=20.0)],
        objectives={"step_ms": "minimize"},
    )
    (point,) = pareto_front(record).points
    assert point.values == {"step_ms": 15.0}
    assert point.repeats == 2
    assert point.run_ids == ("run-tensorflow/portable+xla-0-0", "run-tensorflow/portable+xla-0-1")


def test_survivors_and_incomplete_values_are_no_points() -> None:
    record = sweep(
        [
            trial(XLA, 0, 0),
            trial(XLA, 0, 1, status="failed"),
            trial(XLA, 1, 0, status="wrong_kernel"),
            trial(XLA, 2, 0, step_ms=math.nan),
            trial(XLA, 3, 0, step_ms=None),
            trial(XLA, 4, 0, step_ms=math.inf),
            trial(XLA, 4, 1, step_ms=-math.inf),
            trial(XLA, 5, 0),
        ]
    )
    front = pareto_front(record)
    assert [(p.block, p.values["step_ms"]) for p in front.points] == [(5, 10.0)]
    assert (front.tried, front.left_out) == (1, 5)


def energy_trial(
    arm: Arm, block: int, scope: str, energy_j: float, repeat: int = 0
) -> FinishedTrial:
    return trial(arm, block, repeat, energy_j=energy_j, train_s=1.0, energy_scope=scope or None)


def test_energies_of_different_scopes_do_not_dominate_one_another() -> None:
    trials = [
        energy_trial(PORTABLE, 0, "cpu_package", 500.0),
        energy_trial(PORTABLE, 1, "cpu_package", 450.0),
        energy_trial(XLA, 0, "gpu", 400.0),
        energy_trial(XLA, 1, "gpu", 420.0),
        energy_trial(XLA, 2, "", 1.0),  # the workload's own figure, of unknown scope
    ]
    front = pareto_front(sweep(trials, objectives={"energy_j": "minimize"}))
    assert [(p.scope, p.block, p.values["energy_j"]) for p in front.points] == [
        ("", 2, 1.0), ("cpu_package", 1, 450.0), ("gpu", 0, 400.0),
    ]  # fmt: skip
    assert front.tried == 5
    by_time = pareto_front(sweep(trials, objectives={"train_s": "minimize"}))
    assert {point.scope for point in by_time.points} == {""}


def test_repeats_with_energies_of_different_scopes_are_no_point() -> None:
    trials = [
        energy_trial(XLA, 0, "gpu", 10.0, 0),
        energy_trial(XLA, 0, "gpu+cpu_package", 90.0, 1),
        energy_trial(XLA, 1, "gpu", 70.0, 0),
        energy_trial(XLA, 1, "gpu", 90.0, 1),
    ]
    record = sweep(trials, objectives={"energy_j": "minimize"})
    front = pareto_front(record)
    assert [(point.block, point.values["energy_j"]) for point in front.points] == [(1, 80.0)]
    assert (front.tried, front.left_out) == (1, 1)
    fronts = [row.front for row in trade_offs(record.trials) if row.expense == "energy_j"]
    assert [point.block for front in fronts for point in front.points] == [1]
