"""What it takes to reach an accuracy: by epochs, with those that never do, and block by block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from orchestrator.analysis.comparisons.target_comparison import TargetComparison
from orchestrator.analysis.comparisons.target_trials import (
    ExpenseToTarget,
    Goal,
    TargetTrial,
    expense_to_target,
)
from orchestrator.analysis.comparisons.targets import Target, reach
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import EpochRecord, FinishedTrial
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import (
    CPU,
    PORTABLE,
    RELU,
    UNROLL,
    XLA,
    changed,
    sweep,
    trial,
)

RISING = (0.5, 0.7, 0.8, 0.9)
FLAT = (0.5, 0.6, 0.6, 0.6)
TIMED = Arm("tensorflow/portable+xla", in_slices(CPU))


def learner(
    arm: Arm, block: int, accuracies: Sequence[float], epoch_s: float = 2.0, **changes: Any
) -> FinishedTrial:
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


def target_trial(accuracy: float, made: FinishedTrial) -> TargetTrial:
    return TargetTrial(made, Goal(accuracy).seconds(made))


def times(target: Target) -> TargetComparison:
    (found,) = [each for each in target.comparisons if each.expense == "time_s"]
    return found


def told(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


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
    assert target_trial(0.7, known).expense("energy_j") == pytest.approx(40.0)
    assert target_trial(0.9, known).expense("cost_usd") == pytest.approx(0.4)
    assert target_trial(0.95, known).expense("energy_j") == math.inf
    assert target_trial(0.7, learner(PORTABLE, 0, RISING)).expense("energy_j") is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 1.0, 2.0], ExpenseToTarget(3, 3, 1.5, 2.0, 2.5)),
        ([3.0, 1.0, math.inf], ExpenseToTarget(3, 2, 2.0, 3.0, None)),
        ([1.0, math.inf, math.inf], ExpenseToTarget(3, 1, None, None, None)),
        ([1.0, 2.0, 3.0, 4.0, math.inf], ExpenseToTarget(5, 4, 2.0, 3.0, 4.0)),
        ([math.inf], ExpenseToTarget(1, 0, None, None, None)),
        ([1.0, None], None),
        ([], None),
    ],
)
def test_what_never_reaches_a_target_counts_as_longest(
    values: list[float | None], expected: ExpenseToTarget | None
) -> None:
    assert expense_to_target(values) == expected


def test_arms_are_compared_over_the_blocks_in_which_both_reach_it() -> None:
    unlike = {0: (RISING, FLAT), 1: (FLAT, RISING), 2: (FLAT, FLAT), 3: (RISING, FLAT)}
    found = times(the(learned(unlike, blocks=12)))
    assert (found.both, found.only_arm, found.only_baseline, found.neither) == (8, 1, 2, 1)
    assert [pair.block for pair in found.pairs] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert found.ratio is not None and found.ratio.value == pytest.approx(2.0)
    assert found.verdict == "inconclusive"  # more are reached by the baseline alone
    portable, xla = the(learned(unlike, blocks=12)).arms
    assert (portable.time_s.trials, portable.time_s.reached) == (12, 10)
    assert (xla.time_s.reached, xla.time_s.median) == (9, 3.0)


def test_the_rule_for_blocks_that_one_side_alone_reaches_is_the_one_that_is_told() -> None:
    """One block speaks against it, not significantly: that does not stop what 11 of 12 show."""
    record = learned({0: (RISING, FLAT)}, blocks=12)
    assert times(the(record)).verdict == "less"
    assert (
        "A verdict is withdrawn if significantly more of these blocks contradict it than support "
        "it. It is also withdrawn if more of them contradict it, and the favoured arm is not first "
        "in significantly more of all blocks."
    ) in told(record)


def test_an_arm_that_reaches_it_in_few_easy_blocks_is_not_the_faster_way_there() -> None:
    """Twice as fast in the 6 blocks of 40 in which it gets there at all."""
    record = learned(dict.fromkeys(range(6, 40), (RISING, FLAT)), blocks=40)
    found = times(the(record))
    assert (found.both, found.only_arm, found.only_baseline) == (6, 0, 34)
    assert found.ratio is not None and found.ratio.value == pytest.approx(2.0)
    assert found.verdict == "inconclusive"
    assert found.reason == "the blocks that only one of them reaches contradict it"
    assert found.more_often == PORTABLE
    assert found.more_often_p == pytest.approx(2 * 0.5**34)
    assert (
        "inconclusive: whether tensorflow/portable+xla reaches val_accuracy 0.8 sooner or later "
        "than "
        f"tensorflow/portable on {CPU}: 2.000 × (2.000–2.000) as fast, over the 6 of 40 blocks in "
        "which both reach it (only tensorflow/portable in 34); the blocks that only one of them "
        "reaches contradict it; tensorflow/portable reaches it significantly more often"
    ) in told(record)


@pytest.mark.parametrize(
    ("unlike", "verdict"),
    [
        ({0: (RISING, FLAT)}, "inconclusive"),
        ({0: (RISING, FLAT), 1: (FLAT, RISING)}, "less"),
        ({0: (FLAT, RISING)}, "less"),
    ],
)
def test_blocks_that_only_one_reaches_can_take_a_verdict_back(
    unlike: Mapping[int, tuple[Sequence[float], Sequence[float]]], verdict: str
) -> None:
    assert times(the(learned(unlike))).verdict == verdict


def test_a_slower_way_is_none_where_the_arm_gets_there_alone() -> None:
    late = (*(0.5,) * 11, 0.8)
    slower = dict.fromkeys(range(8), (RISING, late))
    assert times(the(learned(slower))).verdict == "more"
    alone = dict.fromkeys((8, 9), (FLAT, RISING))
    found = times(the(learned({**slower, **alone}, blocks=10)))
    assert found.ratio is not None and found.ratio.value == pytest.approx(0.5)
    assert found.verdict == "inconclusive"


@pytest.mark.parametrize(("blocks", "verdict"), [(8, "inconclusive"), (9, "less"), (40, "less")])
def test_one_block_that_only_the_other_reaches_speaks_against_few(
    blocks: int, verdict: str
) -> None:
    """Seven blocks of eight happen in 7 % of sweeps by chance alone, eight of nine in 4 %."""
    assert times(the(learned({0: (RISING, FLAT)}, blocks=blocks))).verdict == verdict


@pytest.mark.parametrize(("alone", "verdict"), [(5, "same"), (6, "inconclusive")])
def test_what_one_reaches_significantly_more_often_takes_no_equal_time(
    alone: int, verdict: str
) -> None:
    """Five blocks to none happen in 6 % of sweeps by chance alone, six in 3 %."""
    slow = (0.5, 0.5, 0.7, 0.7, 0.7, 0.8)
    curves = dict.fromkeys(range(8), (RISING, slow))
    lost = dict.fromkeys(range(8, 8 + alone), (RISING, FLAT))
    found = times(the(learned({**curves, **lost}, blocks=8 + alone)))
    assert found.verdict == verdict
    assert found.more_often == (PORTABLE if verdict == "inconclusive" else None)


def test_few_very_fast_blocks_do_not_outvote_the_others() -> None:
    """In 8 blocks of 30 six times as fast, and a little slower in all others."""
    curves = {block: (RISING, (0.8,) if block < 8 else (*(0.5,) * 6, 0.8)) for block in range(30)}
    found = times(the(learned(curves, blocks=30)))
    assert found.corrected is not None and found.corrected.low > 1
    assert found.verdict == "inconclusive"
    assert found.reason == "most blocks that either of them reaches show the opposite"


def test_several_arms_reach_it_more_often_by_holms_procedure() -> None:
    """Six blocks to none are enough for one arm beside its baseline, and not for each of two."""
    trials = [
        learner(arm, block, RISING if arm == PORTABLE or block < 6 else FLAT)
        for arm in (PORTABLE, XLA, UNROLL)
        for block in range(12)
    ]
    target = the(sweep(trials, (PORTABLE, XLA, UNROLL), settings={"target_accuracy": 0.8}))
    found = [each for each in target.comparisons if each.expense == "time_s"]
    assert [each.only_baseline for each in found] == [6, 6]
    assert [each.more_often for each in found] == [None, None]
    assert [each.more_often_p for each in found] == pytest.approx([0.0625, 0.0625])


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
    assert (found.both, found.verdict, found.corrected) == (5, "inconclusive", None)
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
    same = the(learned(energy_j=10.0, energy_scope="gpu"))
    assert [each.expense for each in same.comparisons] == ["time_s", "energy_j"]
    record = learned(energy_j=10.0, energy_scope="gpu")
    trials = [
        each if each.arm == XLA else learner(PORTABLE, each.block, RISING, energy_j=10.0,
                                             energy_scope="cpu_package")
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
    unlike = {0: (FLAT, RISING), 1: (FLAT, FLAT)}
    shown = " ".join(render(summarise(learned(unlike)), "text").split())
    assert (
        "tensorflow/portable+xla reaches val_accuracy 0.8 2.000 × (2.000–2.000) as fast as "
        f"tensorflow/portable on {CPU}, over the 6 of 8 blocks in which both reach it (only "
        "tensorflow/portable+xla in 1, neither in 1)"
    ) in shown
    assert "To val_accuracy 0.8" in shown
    few = " ".join(
        render(summarise(learned(dict.fromkeys(range(6), (RISING, FLAT)))), "text").split()
    )
    assert "inconclusive: whether tensorflow/portable+xla reaches val_accuracy 0.8 sooner" in few
    assert "over the 2 of 8 blocks in which both reach it" in few
    assert "at least 6 are needed" in few
    assert "2 of 8 never" in few


@pytest.mark.parametrize(
    ("blocks", "noisy", "said"),
    [
        (8, 0, "over 8 blocks, in each of which both reach it"),
        (8, 2, "over 8 blocks, in each of which both reach it, quiet rounds only"),
        (7, 2, "over 7 blocks, in each of which both reach it, 2 of them disturbed"),
    ],
)
def test_disturbance_is_told_where_all_blocks_reach_it(blocks: int, noisy: int, said: str) -> None:
    shown = told(disturbed(learned(blocks=blocks), noisy))
    where = f"as fast as tensorflow/portable on {CPU}, {said}"
    assert f"reaches val_accuracy 0.8 2.000 × (2.000–2.000) {where}" in shown
    assert f"{where}, " not in shown


@pytest.mark.parametrize(
    ("noisy", "said"),
    [
        (3, "3 of them disturbed; 5 of 8 blocks were quiet, and 6 are needed"),
        (8, "all of them disturbed; 0 of 8 blocks were quiet, and 6 are needed"),
    ],
)
def test_too_many_disturbed_blocks_tell_nothing(noisy: int, said: str) -> None:
    record = disturbed(learned(), noisy)
    assert times(the(record)).verdict == "inconclusive"
    where = "over 8 blocks, in each of which both reach it"
    assert f": 2.000 × (2.000–2.000) as fast, {where}, {said}" in told(record)


def disturbed(record: SweepRecord, blocks: int) -> SweepRecord:
    trials = tuple(
        changed(each, disturbance={"other_processes": 90.0}) if each.block < blocks else each
        for each in record.trials
    )
    return replace(record, trials=trials)


def test_a_target_that_is_asked_for_and_not_known_is_said() -> None:
    trials = [trial(arm, block) for arm in (PORTABLE, XLA) for block in range(6)]
    shown = " ".join(render(summarise(sweep(trials), targets=[0.7]), "text").split())
    assert "No figures for val_accuracy 0.7: no complete trial recorded val_accuracy" in shown
    assert "A trial reaches" not in shown


def test_where_no_block_has_both_there_is_nothing_to_compare() -> None:
    record = learned(dict.fromkeys(range(8), (RISING, FLAT)))
    shown = " ".join(render(summarise(record), "text").split())
    assert (
        f"no block in which both tensorflow/portable+xla and tensorflow/portable on {CPU} reach "
        "val_accuracy 0.8 (only tensorflow/portable in 8)"
    ) in shown
