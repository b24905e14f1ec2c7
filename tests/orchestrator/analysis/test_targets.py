"""Test time, energy and cost to reach an accuracy, and trainings that diverge."""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.analysis.comparisons import targets
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.pairing.pairs import pick_baseline
from orchestrator.core.arms import Arm, Usage
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from tests.orchestrator.analysis.known_sweeps import (
    FLAT,
    NAN,
    RISING,
    learning,
    to_target,
    training,
)
from tests.orchestrator.sample_hardware import in_slices, on_cpu
from tests.orchestrator.sample_records import CPU, PORTABLE, UNROLL, XLA, sweep, trial

CASES = yaml.safe_load(Path(__file__).with_name("targets.yaml").read_text())
SLOW = (0.5, 0.5, 0.7, 0.7, 0.7, 0.8)
"""Twice as many epochs to 0.8 as RISING: XLA then takes as long as PORTABLE."""
LATE = (*(0.5,) * 11, 0.8)
KILLED = "out_of_memory: the trainer needed more than 4 GiB"
TIMED = Arm("tensorflow/portable+xla", in_slices(CPU))
SHORT = Arm("tensorflow/portable+xla", on_cpu(usage=Usage(settings={"epochs": 1})))


def target_of(record: SweepRecord) -> targets.Target:
    return targets.reach(record, match(record), pick_baseline(record, None))[-1]


def comparison_of(record: SweepRecord) -> targets.TargetComparison:
    (comparison,) = target_of(record).comparisons
    return comparison


def reached(comparison: targets.TargetComparison) -> tuple[int, int, int, int]:
    one = comparison
    return one.both, one.only_arm, one.only_baseline, one.neither


def test_energy_and_cost_are_proportional_to_the_time_to_target() -> None:
    record = learning(energy_j=80.0, train_cost_usd=0.4, energy_scope="gpu")
    (row, _) = target_of(record).arms
    assert row.energy_j is not None and row.energy_j.median == pytest.approx(60.0)
    assert row.cost_usd is not None and row.cost_usd.median == pytest.approx(0.3)
    (row, _) = target_of(learning({0: (FLAT, RISING)}, energy_j=80.0)).arms
    assert (row.energy_j, row.cost_usd) == (None, None)  # of no scope, and not recorded
    mixed = [
        training(arm, 0, energy_j=9.0, energy_scope=scope)
        for arm, scope in ((PORTABLE, "cpu_package"), (XLA, "gpu"))
    ]
    assert [row.energy_scope for row in target_of(to_target(mixed)).arms] == ["cpu_package", "gpu"]


RECORDED = trial(PORTABLE, 0, time_to_accuracy_s=3.0)


@pytest.mark.parametrize(
    ("finished", "goal", "seconds"),
    [
        (training(PORTABLE, 0), targets.Goal(0.4), 2.0),  # the first epoch that reaches it
        (training(PORTABLE, 0), targets.Goal(0.7), 4.0),
        (training(PORTABLE, 0), targets.Goal(0.71), 6.0),
        (training(PORTABLE, 0), targets.Goal(0.91), math.inf),
        (RECORDED, targets.Goal(0.8, reported=True), 3.0),
        (RECORDED, targets.Goal(0.8), None),
        (trial(PORTABLE, 0), targets.Goal(0.8, reported=True), math.inf),
        (trial(PORTABLE, 0, val_accuracy=None), targets.Goal(0.8, reported=True), None),
    ],
)
def test_the_time_to_a_target_is_from_epochs_or_from_the_trainer_whose_goal_it_was(
    finished: FinishedTrial, goal: targets.Goal, seconds: float | None
) -> None:
    assert goal.seconds(finished) == seconds


@pytest.mark.parametrize(("values", "expected"), CASES["expenses"])
def test_trials_that_never_reach_a_target_count_as_longest(
    values: list[float | None], expected: list[Any] | None
) -> None:
    assert targets.expense_to_target(values) == (expected and targets.ExpenseToTarget(*expected))


def test_arms_are_compared_over_the_blocks_in_which_both_reach_it() -> None:
    record = learning(
        {0: (RISING, FLAT), 1: (FLAT, RISING), 2: (FLAT, FLAT), 3: (RISING, FLAT)}, 12
    )
    comparison = comparison_of(record)
    assert reached(comparison) == (8, 1, 2, 1)
    assert [pair.block for pair in comparison.pairs] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert comparison.ratio is not None and comparison.ratio.value == pytest.approx(2.0)
    portable, xla = target_of(record).arms
    assert (portable.time_s.trials, portable.time_s.reached) == (12, 10)
    assert (xla.time_s.reached, xla.time_s.median) == (9, 3.0)


@pytest.mark.parametrize(("name", "both", "only_arm", "only_baseline", "verdict"), CASES["blocks"])
def test_blocks_that_only_one_arm_reaches_can_withdraw_a_verdict(
    name: str, both: int, only_arm: int, only_baseline: int, verdict: str
) -> None:
    of_xla = {"rising": RISING, "late": LATE, "slow": SLOW}[name]
    endings = [(RISING, of_xla)] * both + [(FLAT, RISING)] * only_arm
    endings += [(RISING, FLAT)] * only_baseline
    comparison = comparison_of(learning(dict(enumerate(endings)), len(endings)))
    assert reached(comparison) == (both, only_arm, only_baseline, 0)
    assert comparison.verdict == verdict
    assert (comparison.reason is None) == (verdict != "inconclusive")


def test_a_block_reaches_a_target_when_all_of_its_repeats_do() -> None:
    trials = [
        training(arm, block, FLAT if (arm, block, repeat) == (XLA, 0, 1) else RISING, repeat=repeat)
        for arm in (PORTABLE, XLA)
        for block in range(7)
        for repeat in (0, 1)
    ]
    comparison = comparison_of(to_target(trials))
    assert (reached(comparison), len(comparison.pairs)) == ((6, 0, 1, 0), 6)


def test_any_target_can_be_requested() -> None:
    record = learning()
    baseline = pick_baseline(record, None)
    asked = targets.reach(record, match(record), baseline, [0.7, 0.8])
    assert [target.accuracy for target in asked] == [0.8, 0.7]
    assert [target.arms[0].time_s.median for target in asked] == [6.0, 4.0]
    assert targets.reach(sweep(record.trials), match(record), baseline) == ()
    plain = sweep([trial(arm, block) for arm in (PORTABLE, XLA) for block in range(6)])
    (empty,) = targets.reach(plain, match(plain), pick_baseline(plain, None), [0.7])
    assert (empty.arms, empty.comparisons) == ((), ())


def test_only_whole_trainings_of_the_same_work_are_compared() -> None:
    trials = [*learning().trials]
    trials += [training(SHORT, block) for block in range(8)]
    trials += [trial(TIMED, block, metrics={"step_ms": 4.0}) for block in range(8)]
    record = to_target(trials, (PORTABLE, XLA, SHORT, TIMED))
    target = target_of(record)
    assert [row.arm for row in target.arms] == [PORTABLE, XLA, SHORT]
    assert [comparison.arm for comparison in target.comparisons] == [XLA]
    (over_slices,) = targets.reach(record, match(record), pick_baseline(record, str(TIMED)))
    assert over_slices.comparisons == ()


@pytest.mark.parametrize(
    ("failure", "every", "row", "counts", "verdict"),
    [
        (NAN, 2, (40, 20, 20), (20, 0, 20, 0), "inconclusive"),
        (NAN, 1, (40, 0, 40), (0, 0, 40, 0), "inconclusive"),
        (KILLED, 2, (20, 20, 0), (20, 0, 0, 0), "less"),  # an accident excludes its block
    ],
)
def test_a_training_that_diverges_never_reaches_a_target(
    failure: str,
    every: int,
    row: tuple[int, int, int],
    counts: tuple[int, int, int, int],
    verdict: str,
) -> None:
    record = learning(dict.fromkeys(range(0, 40, every), (RISING, failure)), 40, train_cost_usd=1.0)
    failed = [training(UNROLL, block, NAN if block == 1 else KILLED) for block in range(8)]
    target = target_of(to_target([*record.trials, *failed], (PORTABLE, XLA, UNROLL)))
    ours, unrolled = target.comparisons
    assert (reached(ours), ours.verdict) == (counts, verdict)
    assert reached(unrolled) == (0, 0, 1, 0)
    _, xla, _ = target.arms
    assert (xla.time_s.trials, xla.time_s.reached, xla.diverged) == row
    assert (xla.cost_usd is None) == (row[1] == 0)
    all_diverged = learning(dict.fromkeys(range(8), (NAN, NAN)))
    assert targets.reach(all_diverged, match(all_diverged), pick_baseline(all_diverged, None)) == ()
