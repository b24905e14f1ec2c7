"""Test that trainings with non-finite metrics count as diverged, and are not dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from orchestrator.analysis.comparisons.accuracy import AccuracyComparison
from orchestrator.analysis.comparisons.target_comparison import TargetComparison
from orchestrator.analysis.comparisons.targets import Target, reach
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import EpochRecord, FinishedTrial
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, PORTABLE, UNROLL, XLA, sweep, trial

NAN = "non_finite: epoch 3: expected finite metrics; loss is nan"
KILLED = "out_of_memory: the trainer needed more than 4 GiB"
EPOCHS = tuple(EpochRecord(i, 1.0, 0.1, {"val_accuracy": 0.7 + 0.1 * i}) for i in range(3))


def training_trial(arm: Arm, block: int, repeat: int = 0, failure: str = "") -> FinishedTrial:
    """Return a training that reaches 0.8 after two epochs, or that ends with `failure`."""
    if failure:
        return trial(arm, block, repeat, status="failed", failure=failure, metrics={})
    metrics = {"step_ms": 5.0 if arm == PORTABLE else 4.0, "train_s": 3.0, "val_accuracy": 0.9}
    return trial(arm, block, repeat, metrics=metrics, epochs=EPOCHS)


def learning_sweep(
    failed: Callable[[Arm, int], str],
    blocks: int = 40,
    arms: Collection[Arm] = (PORTABLE, XLA),
) -> SweepRecord:
    trials = [
        training_trial(arm, block, 0, failed(arm, block)) for block in range(blocks) for arm in arms
    ]
    return sweep(trials, tuple(arms), settings={"target_accuracy": 0.8})


def xla_failure_in_odd_blocks(arm: Arm, block: int, failure: str = NAN) -> str:
    """Return the failure of XLA in odd blocks, and no failure otherwise."""
    return failure if arm == XLA and block % 2 else ""


def target_of(record: SweepRecord) -> Target:
    return reach(record, match(record), pick_baseline(record, None))[0]


def time_comparisons(target: Target) -> list[TargetComparison]:
    return [row for row in target.comparisons if row.expense == "time_s"]


def accuracy(record: SweepRecord) -> AccuracyComparison:
    (compared,) = (row.accuracy for row in summarise(record).comparisons)
    assert compared is not None
    return compared


def report_text(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


def test_a_training_that_diverges_never_reaches_a_target() -> None:
    record = learning_sweep(xla_failure_in_odd_blocks)
    target = target_of(record)
    (comparison,) = time_comparisons(target)
    assert (comparison.both, comparison.only_arm, comparison.only_baseline, comparison.neither) == (
        20,
        0,
        20,
        0,
    )
    assert (comparison.verdict, comparison.more_often) == ("inconclusive", PORTABLE)
    portable, xla = target.arms
    assert (portable.time_s.trials, portable.time_s.reached, portable.diverged) == (40, 40, 0)
    assert (xla.time_s.trials, xla.time_s.reached, xla.diverged) == (40, 20, 20)
    assert "20 of 40, 20 diverged" in report_text(record)


def test_epochs_before_a_divergence_reach_no_target() -> None:
    trials = [training_trial(arm, block) for block in range(8) for arm in (PORTABLE, XLA)]
    broken = trial(XLA, 8, status="failed", failure=NAN, epochs=EPOCHS, metrics={})
    record = sweep(
        [*trials, training_trial(PORTABLE, 8), broken], settings={"target_accuracy": 0.8}
    )
    (comparison,) = time_comparisons(target_of(record))
    assert (comparison.both, comparison.only_baseline) == (8, 1)


def test_other_failures_do_not_count_as_divergence() -> None:
    record = learning_sweep(lambda arm, block: xla_failure_in_odd_blocks(arm, block, KILLED))
    (comparison,) = time_comparisons(target_of(record))
    assert (comparison.both, comparison.only_baseline, comparison.more_often) == (20, 0, None)
    assert comparison.verdict == "same"
    assert accuracy(record).verdict == "equal"


def test_an_arm_that_always_diverges_reaches_the_target_in_no_block() -> None:
    record = learning_sweep(lambda arm, _: NAN if arm == XLA else "", blocks=8)
    target = target_of(record)
    (comparison,) = time_comparisons(target)
    assert (comparison.both, comparison.only_baseline, comparison.more_often) == (0, 8, PORTABLE)
    xla = target.arms[1]
    assert (xla.time_s.trials, xla.time_s.reached, xla.cost_usd) == (8, 0, None)
    assert (
        f"no block in which both tensorflow/portable+xla and tensorflow/portable on {CPU} reach "
        "val_accuracy 0.8 (only tensorflow/portable in 8); tensorflow/portable reaches it "
        "significantly more often"
    ) in report_text(record)


def test_an_arm_without_complete_trials_does_not_affect_the_others() -> None:
    def failure(arm: Arm, block: int) -> str:
        return (KILLED if block else NAN) if arm == UNROLL else ""

    comparisons = time_comparisons(target_of(learning_sweep(failure, 8, (PORTABLE, XLA, UNROLL))))
    assert [(row.arm, row.both, row.only_baseline) for row in comparisons] == [
        (XLA, 8, 0),
        (UNROLL, 0, 1),
    ]


def test_if_all_trainings_diverge_there_is_no_target() -> None:
    record = learning_sweep(lambda *_: NAN, blocks=8)
    assert reach(record, match(record), pick_baseline(record, None)) == ()


def test_accuracies_are_inconclusive_if_one_arm_diverged() -> None:
    comparison = accuracy(learning_sweep(xla_failure_in_odd_blocks))
    assert comparison.difference.n == 20
    assert (comparison.verdict, comparison.diverged, comparison.baseline_diverged) == (
        "inconclusive",
        20,
        0,
    )
    shown = report_text(learning_sweep(xla_failure_in_odd_blocks))
    assert "costs no accuracy" not in shown
    assert (
        "its accuracy is inconclusive (its training diverged in 20 blocks in which the "
        "baseline's did not; difference 0.000 to 0.000, margin 0.005)"
    ) in shown


def test_one_divergence_of_the_baseline_makes_accuracy_inconclusive() -> None:
    record = learning_sweep(
        lambda arm, block: NAN if arm == PORTABLE and block == 3 else "", blocks=9
    )
    comparison = accuracy(record)
    assert (comparison.verdict, comparison.baseline_diverged) == ("inconclusive", 1)
    assert comparison.reason == "the baseline's training diverged in 1 block in which its did not"


def test_blocks_in_which_both_arms_diverge_do_not_affect_the_others() -> None:
    record = learning_sweep(lambda _, block: NAN if block < 20 else "")
    comparison = accuracy(record)
    assert (comparison.verdict, comparison.diverged, comparison.baseline_diverged) == (
        "equal",
        0,
        0,
    )
    (by_time,) = time_comparisons(target_of(record))
    assert (by_time.both, by_time.neither, by_time.verdict) == (20, 20, "same")


@pytest.mark.parametrize(
    ("arm", "gain", "verdict"),
    [
        (XLA, 0.05, "inconclusive"),
        (XLA, -0.05, "worse"),
        (PORTABLE, 0.05, "better"),
        (PORTABLE, -0.05, "inconclusive"),
    ],
)
def test_divergence_never_favours_the_arm_that_diverged(
    arm: Arm, gain: float, verdict: str
) -> None:
    """An arm that diverged is never more accurate, but the other arm may be."""
    trials = [
        trial(side, block, status="failed", failure=NAN, metrics={})
        if side == arm and block == 8
        else trial(side, block, val_accuracy=0.8 + (gain if side == XLA else 0.001 * block))
        for block in range(9)
        for side in (PORTABLE, XLA)
    ]
    assert accuracy(sweep(trials)).verdict == verdict


def test_a_diverged_repeat_counts_even_if_another_repeat_completed() -> None:
    trials = [
        training_trial(arm, block, repeat, NAN if (arm, repeat) == (XLA, 1) else "")
        for block in range(8)
        for repeat in (0, 1)
        for arm in (PORTABLE, XLA)
    ]
    comparison = accuracy(sweep(trials))
    assert (comparison.difference.n, comparison.verdict, comparison.diverged) == (
        8,
        "inconclusive",
        8,
    )
