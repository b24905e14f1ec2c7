"""What it takes to reach an accuracy: by epochs, with those that never do, and block by block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from orchestrator.report.baseline import pick_baseline
from orchestrator.report.blocks import match
from orchestrator.report.reaching import Attempt, Goal, Reached, reached
from orchestrator.report.records import SweepRecord, TrialRecord
from orchestrator.report.rendering import render, summarise
from orchestrator.report.targets import Target, TargetComparison, reach
from orchestrator.trial import Arm, EpochRecord
from tests.orchestrator.report.records import CPU, PORTABLE, RELU, XLA, sweep, trial

RISING = (0.5, 0.7, 0.8, 0.9)
FLAT = (0.5, 0.6, 0.6, 0.6)
TIMED = Arm("tensorflow/portable+xla", f"{CPU} [timing]")


def learner(
    arm: Arm, block: int, accuracies: Sequence[float], epoch_s: float = 2.0, **changes: Any
) -> TrialRecord:
    """A trial whose epochs take so long and end at these accuracies."""
    epochs = tuple(
        EpochRecord(i, epoch_s, 0.1, {"val_accuracy": accuracy})
        for i, accuracy in enumerate(accuracies)
    )
    measured = {"train_s": epoch_s * len(epochs), "val_accuracy": accuracies[-1], "step_ms": 5.0}
    return trial(arm, block, epochs=epochs, **{**measured, **changes})


def learned(
    unlike: Mapping[int, tuple[Sequence[float], Sequence[float]]] = MappingProxyType({}),
    blocks: int = 8,
    **changes: Any,
) -> SweepRecord:
    """PORTABLE and XLA, whose epochs take half the time; `unlike` blocks have their own curves."""
    curves = dict.fromkeys(range(blocks), (RISING, RISING)) | dict(unlike)
    trials = [
        learner(arm, block, curve, epoch_s, **changes)
        for block in range(blocks)
        for arm, curve, epoch_s in zip((PORTABLE, XLA), curves[block], (2.0, 1.0), strict=True)
    ]
    return sweep(trials, settings={"target_accuracy": 0.8})


def the(record: SweepRecord, accuracy: float | None = None) -> Target:
    asked = () if accuracy is None else (accuracy,)
    return reach(record, match(record), pick_baseline(record, None), asked)[-1]


def attempt(accuracy: float, made: TrialRecord) -> Attempt:
    return Attempt(made, Goal(accuracy).seconds(made))


def times(target: Target) -> TargetComparison:
    (found,) = [each for each in target.comparisons if each.expense == "time_s"]
    return found


@pytest.mark.parametrize(
    ("accuracy", "seconds"), [(0.4, 2.0), (0.7, 4.0), (0.71, 6.0), (0.9, 8.0), (0.91, math.inf)]
)
def test_time_to_a_target_is_training_up_to_the_first_epoch_with_it(
    accuracy: float, seconds: float
) -> None:
    assert Goal(accuracy).seconds(learner(PORTABLE, 0, RISING)) == seconds


def test_without_epochs_only_the_trainers_own_target_is_known() -> None:
    told = trial(PORTABLE, 0, time_to_accuracy_s=3.0)
    assert Goal(0.8, reported=True).seconds(told) == 3.0
    assert Goal(0.8, reported=True).seconds(trial(PORTABLE, 0)) == math.inf
    assert Goal(0.8).seconds(told) is None
    assert Goal(0.8, reported=True).seconds(trial(PORTABLE, 0, val_accuracy=None)) is None


def test_energy_and_cost_are_those_of_the_share_of_the_timed_epochs() -> None:
    known = learner(PORTABLE, 0, RISING, energy_j=80.0, train_cost_usd=0.4)
    assert attempt(0.7, known).expense("energy_j") == pytest.approx(40.0)
    assert attempt(0.9, known).expense("cost_usd") == pytest.approx(0.4)
    assert attempt(0.95, known).expense("energy_j") == math.inf
    assert attempt(0.7, learner(PORTABLE, 0, RISING)).expense("energy_j") is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 1.0, 2.0], Reached(3, 3, 1.5, 2.0, 2.5)),
        ([3.0, 1.0, math.inf], Reached(3, 2, 2.0, 3.0, None)),
        ([1.0, math.inf, math.inf], Reached(3, 1, None, None, None)),
        ([1.0, 2.0, 3.0, 4.0, math.inf], Reached(5, 4, 2.0, 3.0, 4.0)),
        ([math.inf], Reached(1, 0, None, None, None)),
        ([1.0, None], None),
        ([], None),
    ],
)
def test_what_never_reaches_a_target_counts_as_longest(
    values: list[float | None], expected: Reached | None
) -> None:
    assert reached(values) == expected


def test_arms_are_compared_over_the_blocks_in_which_both_reach_it() -> None:
    unlike = {0: (RISING, FLAT), 1: (FLAT, RISING), 2: (FLAT, FLAT), 3: (FLAT, RISING)}
    found = times(the(learned(unlike, blocks=12)))
    assert (found.both, found.only_arm, found.only_baseline, found.neither) == (8, 2, 1, 1)
    assert [pair.block for pair in found.pairs] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert found.ratio is not None and found.ratio.value == pytest.approx(2.0)
    assert found.verdict == "less"
    portable, xla = the(learned(unlike, blocks=12)).arms
    assert (portable.time_s.trials, portable.time_s.reached) == (12, 9)
    assert (xla.time_s.reached, xla.time_s.median) == (10, 3.0)


def test_a_block_reaches_a_target_when_all_of_its_repeats_do() -> None:
    trials = [
        learner(arm, block, FLAT if (arm, block, repeat) == (XLA, 0, 1) else RISING, repeat=repeat)
        for arm in (PORTABLE, XLA)
        for block in range(7)
        for repeat in (0, 1)
    ]
    found = times(the(sweep(trials, settings={"target_accuracy": 0.8})))
    assert (found.both, found.only_baseline, len(found.pairs)) == (6, 1, 6)


def test_few_common_blocks_cannot_tell() -> None:
    found = times(the(learned(dict.fromkeys(range(3), (RISING, FLAT)))))
    assert (found.both, found.verdict, found.corrected) == (5, "cannot tell", None)
    none = times(the(learned(dict.fromkeys(range(8), (RISING, FLAT)))))
    assert (none.both, none.only_baseline, none.ratio) == (0, 8, None)


def test_a_faster_epoch_can_be_no_faster_way_to_a_target() -> None:
    """XLA's epochs take half the time, and it needs twice as many."""
    slow = (0.5, 0.5, 0.7, 0.7, 0.7, 0.8)
    found = times(the(learned(dict.fromkeys(range(8), (RISING, slow)))))
    assert found.verdict == "same"


def test_any_target_can_be_asked_for() -> None:
    record = learned()
    baseline = pick_baseline(record, None)
    found = reach(record, match(record), baseline, [0.7, 0.8])
    assert [target.accuracy for target in found] == [0.8, 0.7]
    assert [target.arms[0].time_s.median for target in found] == [6.0, 4.0]
    assert reach(sweep(record.trials), match(record), baseline) == ()


def test_energies_of_unlike_scopes_are_not_compared() -> None:
    same = the(learned(energy_j=10.0, notes={"energy_scope": "gpu"}))
    assert [each.expense for each in same.comparisons] == ["time_s", "energy_j"]
    record = learned(energy_j=10.0, notes={"energy_scope": "gpu"})
    trials = [
        each if each.arm == XLA else learner(PORTABLE, each.block, RISING, energy_j=10.0,
                                             notes={"energy_scope": "cpu_package"})
        for each in record.trials
    ]  # fmt: skip
    other = the(sweep(trials, settings={"target_accuracy": 0.8}))
    assert [each.expense for each in other.comparisons] == ["time_s"]
    assert [arm.energy_scope for arm in other.arms] == ["cpu_package", "gpu"]


def test_only_whole_trainings_of_the_same_mathematics_are_compared() -> None:
    trials = [*learned().trials]
    trials += [learner(RELU, block, RISING) for block in range(8)]
    trials += [trial(TIMED, block, metrics={"step_ms": 4.0}) for block in range(8)]
    arms = (PORTABLE, XLA, RELU, TIMED)
    target = the(sweep(trials, arms, settings={"target_accuracy": 0.8}))
    assert [row.arm for row in target.arms] == [PORTABLE, XLA, RELU]
    assert [each.arm for each in target.comparisons] == [XLA]


def test_the_report_says_who_reached_it() -> None:
    unlike = {0: (RISING, FLAT), 1: (FLAT, FLAT)}
    shown = " ".join(render(summarise(learned(unlike)), "text").split())
    assert (
        "tensorflow/portable+xla reaches val_accuracy 0.8 2.000 × (2.000–2.000) as fast as "
        f"tensorflow/portable on {CPU}, over the 6 of 8 blocks in which both reach it (only "
        "tensorflow/portable in 1, neither in 1)"
    ) in shown
    assert "To val_accuracy 0.8" in shown
    few = " ".join(
        render(summarise(learned(dict.fromkeys(range(6), (RISING, FLAT)))), "text").split()
    )
    assert "cannot tell whether tensorflow/portable+xla reaches val_accuracy 0.8 sooner" in few
    assert "over the 2 of 8 blocks in which both reach it" in few
    assert "at least 6 are needed" in few
    assert "2 of 8 never" in few


def told(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


@pytest.mark.parametrize(
    ("noisy", "said"),
    [
        (0, "over 8 blocks, in each of which both reach it"),
        (2, "over 8 blocks, in each of which both reach it, quiet rounds only"),
        (3, "over 8 blocks, in each of which both reach it, 3 of them disturbed"),
        (8, "over 8 blocks, in each of which both reach it, all of them disturbed"),
    ],
)
def test_disturbance_is_told_where_all_blocks_reach_it(noisy: int, said: str) -> None:
    record = learned()
    trials = tuple(
        replace(each, notes={"disturbed": "others took 90 % of the CPUs"})
        if each.block < noisy
        else each
        for each in record.trials
    )
    shown = told(replace(record, trials=trials))
    where = f"as fast as tensorflow/portable on {CPU}, {said}"
    assert f"reaches val_accuracy 0.8 2.000 × (2.000–2.000) {where}" in shown
    assert f"{where}, " not in shown


def test_a_target_that_is_asked_for_and_not_known_is_said() -> None:
    trials = [trial(arm, block) for arm in (PORTABLE, XLA) for block in range(6)]
    shown = " ".join(render(summarise(sweep(trials), targets=[0.7]), "text").split())
    assert "Of val_accuracy 0.7 nothing can be told: no complete trial has its val" in shown
    assert "A trial reaches" not in shown


def test_where_no_block_has_both_there_is_nothing_to_compare() -> None:
    record = learned(dict.fromkeys(range(8), (RISING, FLAT)))
    shown = " ".join(render(summarise(record), "text").split())
    assert (
        f"no block in which both tensorflow/portable+xla and tensorflow/portable on {CPU} reach "
        "val_accuracy 0.8 (only tensorflow/portable in 8)"
    ) in shown
