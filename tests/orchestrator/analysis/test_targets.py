"""Test time, energy and cost to reach an accuracy, and trainings that diverge."""

import math

import pytest

from orchestrator.analysis.arms import targets
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.hardware import build_timing_use
from tests.building.known_records import (
    FLAT,
    NAN,
    RISING,
    build_learning_record,
    build_target_record,
    build_training,
)
from tests.building.records import build_record
from tests.building.trials import build_trial

KILLED = "out_of_memory: the trainer needed more than 4 GiB"
TIMED = Arm("tensorflow/portable+xla", build_timing_use(CPU))


def target_of(record: SweepRecord) -> targets.Target:
    return targets.reach(record)[-1]


def test_energy_and_cost_are_proportional_to_the_time_to_target() -> None:
    record = build_learning_record(energy_j=80.0, train_cost_usd=0.4, energy_scope="gpu")
    (row, _) = target_of(record).arms
    assert row.energy_j is not None and row.energy_j.median == pytest.approx(60.0)
    assert row.cost_usd is not None and row.cost_usd.median == pytest.approx(0.3)
    lost = build_training(8, PORTABLE, NAN, metrics={"energy_j": 9.0}, energy_scope="cpu_package")
    (row, _) = target_of(build_target_record([*record.trials, lost, build_training(8, XLA)])).arms
    assert (row.energy_scope, row.diverged) == ("gpu", 1)
    (row, _) = target_of(build_learning_record({0: (FLAT, RISING)}, energy_j=80.0)).arms
    assert (row.energy_j, row.cost_usd) == (None, None)  # of no scope, and not recorded
    mixed = [
        build_training(0, arm, energy_j=9.0, energy_scope=scope)
        for arm, scope in ((PORTABLE, "cpu_package"), (XLA, "gpu"))
    ]
    assert [row.energy_scope for row in target_of(build_target_record(mixed)).arms] == [
        "cpu_package",
        "gpu",
    ]


RECORDED = build_trial(0, PORTABLE, time_to_accuracy_s=3.0)


@pytest.mark.parametrize(
    ("finished", "goal", "seconds"),
    [
        (
            build_training(0, PORTABLE),
            targets.AccuracyGoal(0.4),
            2.0,
        ),  # the first epoch that reaches it
        (build_training(0, PORTABLE), targets.AccuracyGoal(0.71), 6.0),
        (build_training(0, PORTABLE), targets.AccuracyGoal(0.91), math.inf),
        (RECORDED, targets.AccuracyGoal(0.8, reported=True), 3.0),
        (RECORDED, targets.AccuracyGoal(0.8), None),
        (build_trial(0, PORTABLE), targets.AccuracyGoal(0.8, reported=True), math.inf),
        (
            build_trial(0, PORTABLE, val_accuracy=None),
            targets.AccuracyGoal(0.8, reported=True),
            None,
        ),
    ],
)
def test_the_time_to_a_target_is_from_epochs_or_from_the_trainer_whose_goal_it_was(
    finished: FinishedTrial, goal: targets.AccuracyGoal, seconds: float | None
) -> None:
    assert goal.seconds(finished) == seconds


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(
            [1.0, math.inf, math.inf],
            targets.ExpenseToTarget(3, 1, None, None, None),
            id="two of three never reach it",
        ),
        pytest.param(
            [1.0, 2.0, 3.0, 4.0, math.inf],
            targets.ExpenseToTarget(5, 4, 2.0, 3.0, 4.0),
            id="one of five never reaches it",
        ),
        pytest.param([1.0, None], None, id="one is unknown"),
        pytest.param([], None, id="no trials"),
    ],
)
def test_trials_that_never_reach_a_target_count_as_longest(
    values: list[float | None], expected: targets.ExpenseToTarget | None
) -> None:
    assert targets.expense_to_target(values) == expected


def test_any_target_can_be_requested() -> None:
    record = build_learning_record()
    asked = targets.reach(record, [0.7, 0.8])
    assert [target.accuracy for target in asked] == [0.8, 0.7]
    assert [target.arms[0].time_s.median for target in asked] == [6.0, 4.0]
    assert targets.reach(build_record(record.trials)) == ()
    plain = build_record([build_trial(block, arm) for arm in (PORTABLE, XLA) for block in range(6)])
    (empty,) = targets.reach(plain, [0.7])
    assert empty.arms == ()


def test_only_whole_trainings_reach_a_target() -> None:
    trials = [*build_learning_record().trials]
    trials += [build_trial(block, TIMED, metrics={"step_ms": 4.0}) for block in range(8)]
    target = target_of(build_target_record(trials, (PORTABLE, XLA, TIMED)))
    assert [row.arm for row in target.arms] == [PORTABLE, XLA]


@pytest.mark.parametrize(
    ("failure", "every", "row"),
    [
        (NAN, 2, (40, 20, 20)),
        (NAN, 1, (40, 0, 40)),
        (KILLED, 2, (20, 20, 0)),  # an accident excludes its block
    ],
)
def test_a_training_that_diverges_never_reaches_a_target(
    failure: str, every: int, row: tuple[int, int, int]
) -> None:
    record = build_learning_record(
        dict.fromkeys(range(0, 40, every), (RISING, failure)), 40, train_cost_usd=1.0
    )
    _, xla = target_of(record).arms
    assert (xla.time_s.trials, xla.time_s.reached, xla.diverged) == row
    assert (xla.cost_usd is None) == (row[1] == 0)
    all_diverged = build_learning_record(dict.fromkeys(range(8), (NAN, NAN)))
    assert targets.reach(all_diverged) == ()
