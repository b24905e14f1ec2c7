"""Test time, energy and cost to reach an accuracy, including trials that never reach it."""

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


def training_trial(
    arm: Arm, block: int, accuracies: Sequence[float], epoch_s: float = 2.0, **changes: Any
) -> FinishedTrial:
    """Return a trial whose epochs take `epoch_s` and end at these accuracies."""
    epochs = tuple(
        EpochRecord(i, epoch_s, 0.1, {"val_accuracy": accuracy})
        for i, accuracy in enumerate(accuracies)
    )
    measured = {"train_s": epoch_s * len(epochs), "val_accuracy": accuracies[-1], "step_ms": 5.0}
    return trial(arm, block, epochs=epochs, **{**measured, **changes})


def learning_sweep(
    own_curves: Mapping[int, tuple[Sequence[float], Sequence[float]]] = MappingProxyType({}),
    blocks: int = 8,
    **changes: Any,
) -> SweepRecord:
    """Return trials of PORTABLE, and of XLA with epochs half as long.

    Accuracies rise in every block, except in those that `own_curves` names.
    """
    curves = dict.fromkeys(range(blocks), (RISING, RISING)) | dict(own_curves)
    trials = [
        training_trial(arm, block, curve, epoch_s, **changes)
        for block in range(blocks)
        for arm, curve, epoch_s in zip((PORTABLE, XLA), curves[block], (2.0, 1.0), strict=True)
    ]
    return sweep(trials, settings={"target_accuracy": 0.8})


def target_of(record: SweepRecord) -> Target:
    return reach(record, match(record), pick_baseline(record, None))[-1]


def target_trial(accuracy: float, made: FinishedTrial) -> TargetTrial:
    return TargetTrial(made, Goal(accuracy).seconds(made))


def time_comparison(target: Target) -> TargetComparison:
    (comparison,) = [row for row in target.comparisons if row.expense == "time_s"]
    return comparison


def report_text(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


@pytest.mark.parametrize(
    ("accuracy", "seconds"), [(0.4, 2.0), (0.7, 4.0), (0.71, 6.0), (0.9, 8.0), (0.91, math.inf)]
)
def test_time_to_a_target_ends_with_the_first_epoch_that_reaches_it(
    accuracy: float, seconds: float
) -> None:
    assert Goal(accuracy).seconds(training_trial(PORTABLE, 0, RISING)) == seconds


def test_without_epochs_only_the_target_of_the_trainer_has_a_time() -> None:
    finished = trial(PORTABLE, 0, time_to_accuracy_s=3.0)
    assert Goal(0.8, reported=True).seconds(finished) == 3.0
    assert Goal(0.8, reported=True).seconds(trial(PORTABLE, 0)) == math.inf
    assert Goal(0.8).seconds(finished) is None
    assert Goal(0.8, reported=True).seconds(trial(PORTABLE, 0, val_accuracy=None)) is None


def test_energy_and_cost_are_proportional_to_the_time_to_target() -> None:
    finished = training_trial(PORTABLE, 0, RISING, energy_j=80.0, train_cost_usd=0.4)
    assert target_trial(0.7, finished).expense("energy_j") == pytest.approx(40.0)
    assert target_trial(0.9, finished).expense("cost_usd") == pytest.approx(0.4)
    assert target_trial(0.95, finished).expense("energy_j") == math.inf
    assert target_trial(0.7, training_trial(PORTABLE, 0, RISING)).expense("energy_j") is None


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
def test_trials_that_never_reach_a_target_count_as_longest(
    values: list[float | None], expected: ExpenseToTarget | None
) -> None:
    assert expense_to_target(values) == expected


def test_arms_are_compared_over_the_blocks_in_which_both_reach_it() -> None:
    own_curves = {0: (RISING, FLAT), 1: (FLAT, RISING), 2: (FLAT, FLAT), 3: (RISING, FLAT)}
    comparison = time_comparison(target_of(learning_sweep(own_curves, blocks=12)))
    assert (comparison.both, comparison.only_arm, comparison.only_baseline, comparison.neither) == (
        8,
        1,
        2,
        1,
    )
    assert [pair.block for pair in comparison.pairs] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert comparison.ratio is not None and comparison.ratio.value == pytest.approx(2.0)
    assert comparison.verdict == "inconclusive"  # the baseline alone reaches it in more blocks
    portable, xla = target_of(learning_sweep(own_curves, blocks=12)).arms
    assert (portable.time_s.trials, portable.time_s.reached) == (12, 10)
    assert (xla.time_s.reached, xla.time_s.median) == (9, 3.0)


def test_the_report_states_the_rule_for_blocks_that_only_one_arm_reaches() -> None:
    """One contradicting block of 12 is not significant, so the verdict of the other 11 holds."""
    record = learning_sweep({0: (RISING, FLAT)}, blocks=12)
    assert time_comparison(target_of(record)).verdict == "less"
    assert (
        "A verdict is withdrawn if significantly more of these blocks contradict it than support "
        "it. It is also withdrawn if more of them contradict it, and the favoured arm is not first "
        "in significantly more of all blocks."
    ) in report_text(record)


def test_an_arm_that_reaches_a_target_in_few_blocks_is_not_faster() -> None:
    """XLA is twice as fast, but only in the 6 of 40 blocks in which it reaches the target."""
    record = learning_sweep(dict.fromkeys(range(6, 40), (RISING, FLAT)), blocks=40)
    comparison = time_comparison(target_of(record))
    assert (comparison.both, comparison.only_arm, comparison.only_baseline) == (6, 0, 34)
    assert comparison.ratio is not None and comparison.ratio.value == pytest.approx(2.0)
    assert comparison.verdict == "inconclusive"
    assert comparison.reason == "the blocks that only one of them reaches contradict it"
    assert comparison.more_often == PORTABLE
    assert comparison.more_often_p == pytest.approx(2 * 0.5**34)
    assert (
        "inconclusive: whether tensorflow/portable+xla reaches val_accuracy 0.8 sooner or later "
        "than "
        f"tensorflow/portable on {CPU}: 2.000 × (2.000–2.000) as fast, over the 6 of 40 blocks in "
        "which both reach it (only tensorflow/portable in 34); the blocks that only one of them "
        "reaches contradict it; tensorflow/portable reaches it significantly more often"
    ) in report_text(record)


@pytest.mark.parametrize(
    ("own_curves", "verdict"),
    [
        ({0: (RISING, FLAT)}, "inconclusive"),
        ({0: (RISING, FLAT), 1: (FLAT, RISING)}, "less"),
        ({0: (FLAT, RISING)}, "less"),
    ],
)
def test_blocks_that_only_one_arm_reaches_can_withdraw_a_verdict(
    own_curves: Mapping[int, tuple[Sequence[float], Sequence[float]]], verdict: str
) -> None:
    assert time_comparison(target_of(learning_sweep(own_curves))).verdict == verdict


def test_a_slower_arm_is_inconclusive_if_it_alone_reaches_other_blocks() -> None:
    late = (*(0.5,) * 11, 0.8)
    slower = dict.fromkeys(range(8), (RISING, late))
    assert time_comparison(target_of(learning_sweep(slower))).verdict == "more"
    alone = dict.fromkeys((8, 9), (FLAT, RISING))
    comparison = time_comparison(target_of(learning_sweep({**slower, **alone}, blocks=10)))
    assert comparison.ratio is not None and comparison.ratio.value == pytest.approx(0.5)
    assert comparison.verdict == "inconclusive"


@pytest.mark.parametrize(("blocks", "verdict"), [(8, "inconclusive"), (9, "less"), (40, "less")])
def test_one_contradicting_block_withdraws_a_verdict_of_few_blocks(
    blocks: int, verdict: str
) -> None:
    """By chance, seven of eight blocks occur in 7 % of sweeps, and eight of nine in 4 %."""
    assert (
        time_comparison(target_of(learning_sweep({0: (RISING, FLAT)}, blocks=blocks))).verdict
        == verdict
    )


@pytest.mark.parametrize(("alone", "verdict"), [(5, "same"), (6, "inconclusive")])
def test_times_are_not_equal_if_one_arm_reaches_the_target_more_often(
    alone: int, verdict: str
) -> None:
    """By chance, five blocks to none occur in 6 % of sweeps, and six in 3 %."""
    slow = (0.5, 0.5, 0.7, 0.7, 0.7, 0.8)
    curves = dict.fromkeys(range(8), (RISING, slow))
    lost = dict.fromkeys(range(8, 8 + alone), (RISING, FLAT))
    comparison = time_comparison(target_of(learning_sweep({**curves, **lost}, blocks=8 + alone)))
    assert comparison.verdict == verdict
    assert comparison.more_often == (PORTABLE if verdict == "inconclusive" else None)


def test_few_very_fast_blocks_do_not_outvote_the_others() -> None:
    """XLA is six times as fast in 8 of 30 blocks, and a little slower in the others."""
    curves = {block: (RISING, (0.8,) if block < 8 else (*(0.5,) * 6, 0.8)) for block in range(30)}
    comparison = time_comparison(target_of(learning_sweep(curves, blocks=30)))
    assert comparison.corrected is not None and comparison.corrected.low > 1
    assert comparison.verdict == "inconclusive"
    assert comparison.reason == "most blocks that either of them reaches show the opposite"


def test_holms_procedure_corrects_which_arm_reaches_a_target_more_often() -> None:
    """Six blocks to none are significant for one arm, but not for two arms tested together."""
    trials = [
        training_trial(arm, block, RISING if arm == PORTABLE or block < 6 else FLAT)
        for arm in (PORTABLE, XLA, UNROLL)
        for block in range(12)
    ]
    target = target_of(sweep(trials, (PORTABLE, XLA, UNROLL), settings={"target_accuracy": 0.8}))
    comparisons = [
        comparison for comparison in target.comparisons if comparison.expense == "time_s"
    ]
    assert [comparison.only_baseline for comparison in comparisons] == [6, 6]
    assert [comparison.more_often for comparison in comparisons] == [None, None]
    assert [comparison.more_often_p for comparison in comparisons] == pytest.approx(
        [0.0625, 0.0625]
    )


def test_a_block_reaches_a_target_when_all_of_its_repeats_do() -> None:
    trials = [
        training_trial(
            arm, block, FLAT if (arm, block, repeat) == (XLA, 0, 1) else RISING, repeat=repeat
        )
        for arm in (PORTABLE, XLA)
        for block in range(7)
        for repeat in (0, 1)
    ]
    comparison = time_comparison(target_of(sweep(trials, settings={"target_accuracy": 0.8})))
    assert (comparison.both, comparison.only_baseline, len(comparison.pairs)) == (6, 1, 6)


def test_few_common_blocks_are_inconclusive() -> None:
    comparison = time_comparison(target_of(learning_sweep(dict.fromkeys(range(3), (RISING, FLAT)))))
    assert (comparison.both, comparison.verdict, comparison.corrected) == (5, "inconclusive", None)
    none = time_comparison(target_of(learning_sweep(dict.fromkeys(range(8), (RISING, FLAT)))))
    assert (none.both, none.only_baseline, none.ratio) == (0, 8, None)


def test_faster_epochs_do_not_imply_a_shorter_time_to_target() -> None:
    """XLA's epochs take half the time, and it needs twice as many."""
    slow = (0.5, 0.5, 0.7, 0.7, 0.7, 0.8)
    comparison = time_comparison(target_of(learning_sweep(dict.fromkeys(range(8), (RISING, slow)))))
    assert comparison.verdict == "same"


def test_any_target_can_be_requested() -> None:
    record = learning_sweep()
    baseline = pick_baseline(record, None)
    targets = reach(record, match(record), baseline, [0.7, 0.8])
    assert [target.accuracy for target in targets] == [0.8, 0.7]
    assert [target.arms[0].time_s.median for target in targets] == [6.0, 4.0]
    assert reach(sweep(record.trials), match(record), baseline) == ()


def test_energies_of_different_scopes_are_not_compared() -> None:
    same = target_of(learning_sweep(energy_j=10.0, energy_scope="gpu"))
    assert [comparison.expense for comparison in same.comparisons] == ["time_s", "energy_j"]
    record = learning_sweep(energy_j=10.0, energy_scope="gpu")
    trials = [
        finished if finished.arm == XLA
        else training_trial(PORTABLE, finished.block, RISING, energy_j=10.0,
                            energy_scope="cpu_package")
        for finished in record.trials
    ]  # fmt: skip
    other = target_of(sweep(trials, settings={"target_accuracy": 0.8}))
    assert [comparison.expense for comparison in other.comparisons] == ["time_s"]
    assert [arm.energy_scope for arm in other.arms] == ["cpu_package", "gpu"]


def test_only_whole_trainings_of_the_same_mathematics_are_compared() -> None:
    trials = [*learning_sweep().trials]
    trials += [training_trial(RELU, block, RISING) for block in range(8)]
    trials += [trial(TIMED, block, metrics={"step_ms": 4.0}) for block in range(8)]
    arms = (PORTABLE, XLA, RELU, TIMED)
    target = target_of(sweep(trials, arms, settings={"target_accuracy": 0.8}))
    assert [row.arm for row in target.arms] == [PORTABLE, XLA, RELU]
    assert [comparison.arm for comparison in target.comparisons] == [XLA]


def test_the_report_shows_which_arm_reached_the_target() -> None:
    own_curves = {0: (FLAT, RISING), 1: (FLAT, FLAT)}
    shown = " ".join(render(summarise(learning_sweep(own_curves)), "text").split())
    assert (
        "tensorflow/portable+xla reaches val_accuracy 0.8 2.000 × (2.000–2.000) as fast as "
        f"tensorflow/portable on {CPU}, over the 6 of 8 blocks in which both reach it (only "
        "tensorflow/portable+xla in 1, neither in 1)"
    ) in shown
    assert "To val_accuracy 0.8" in shown
    few = " ".join(
        render(summarise(learning_sweep(dict.fromkeys(range(6), (RISING, FLAT)))), "text").split()
    )
    assert "inconclusive: whether tensorflow/portable+xla reaches val_accuracy 0.8 sooner" in few
    assert "over the 2 of 8 blocks in which both reach it" in few
    assert "at least 6 are needed" in few
    assert "2 of 8 never" in few


@pytest.mark.parametrize(
    ("blocks", "noisy", "phrase"),
    [
        (8, 0, "over 8 blocks, in each of which both reach it"),
        (8, 2, "over 8 blocks, in each of which both reach it, quiet rounds only"),
        (7, 2, "over 7 blocks, in each of which both reach it, 2 of them disturbed"),
    ],
)
def test_disturbance_is_reported_where_all_blocks_reach_the_target(
    blocks: int, noisy: int, phrase: str
) -> None:
    shown = report_text(disturbed_sweep(learning_sweep(blocks=blocks), noisy))
    where = f"as fast as tensorflow/portable on {CPU}, {phrase}"
    assert f"reaches val_accuracy 0.8 2.000 × (2.000–2.000) {where}" in shown
    assert f"{where}, " not in shown


@pytest.mark.parametrize(
    ("noisy", "phrase"),
    [
        (3, "3 of them disturbed; 5 of 8 blocks were quiet, and 6 are needed"),
        (8, "all of them disturbed; 0 of 8 blocks were quiet, and 6 are needed"),
    ],
)
def test_too_many_disturbed_blocks_are_inconclusive(noisy: int, phrase: str) -> None:
    record = disturbed_sweep(learning_sweep(), noisy)
    assert time_comparison(target_of(record)).verdict == "inconclusive"
    where = "over 8 blocks, in each of which both reach it"
    assert f": 2.000 × (2.000–2.000) as fast, {where}, {phrase}" in report_text(record)


def disturbed_sweep(record: SweepRecord, blocks: int) -> SweepRecord:
    """Return the sweep with its first blocks marked as disturbed."""
    trials = tuple(
        changed(finished, disturbance={"other_processes": 90.0})
        if finished.block < blocks
        else finished
        for finished in record.trials
    )
    return replace(record, trials=trials)


def test_a_requested_target_without_figures_is_reported() -> None:
    trials = [trial(arm, block) for arm in (PORTABLE, XLA) for block in range(6)]
    shown = " ".join(render(summarise(sweep(trials), targets=[0.7]), "text").split())
    assert "No figures for val_accuracy 0.7: no complete trial recorded val_accuracy" in shown
    assert "A trial reaches" not in shown


def test_without_a_common_block_there_is_nothing_to_compare() -> None:
    record = learning_sweep(dict.fromkeys(range(8), (RISING, FLAT)))
    shown = " ".join(render(summarise(record), "text").split())
    assert (
        f"no block in which both tensorflow/portable+xla and tensorflow/portable on {CPU} reach "
        "val_accuracy 0.8 (only tensorflow/portable in 8)"
    ) in shown
