"""Trainings that end in numbers that are not finite: counted as what they are, not dropped."""

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


def learner(arm: Arm, block: int, repeat: int = 0, failure: str = "") -> FinishedTrial:
    """A training that reaches 0.8 after two epochs, or one that failed so."""
    if failure:
        return trial(arm, block, repeat, status="failed", failure=failure, metrics={})
    metrics = {"step_ms": 5.0 if arm == PORTABLE else 4.0, "train_s": 3.0, "val_accuracy": 0.9}
    return trial(arm, block, repeat, metrics=metrics, epochs=EPOCHS)


def learned(
    failed: Callable[[Arm, int], str],
    blocks: int = 40,
    arms: Collection[Arm] = (PORTABLE, XLA),
) -> SweepRecord:
    trials = [learner(arm, block, 0, failed(arm, block)) for block in range(blocks) for arm in arms]
    return sweep(trials, tuple(arms), settings={"target_accuracy": 0.8})


def half(arm: Arm, block: int, failure: str = NAN) -> str:
    """XLA fails in every other block."""
    return failure if arm == XLA and block % 2 else ""


def the(record: SweepRecord) -> Target:
    return reach(record, match(record), pick_baseline(record, None))[0]


def times(target: Target) -> list[TargetComparison]:
    return [each for each in target.comparisons if each.expense == "time_s"]


def accuracy(record: SweepRecord) -> AccuracyComparison:
    (found,) = (each.accuracy for each in summarise(record).comparisons)
    assert found is not None
    return found


def text(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


def test_a_training_that_diverges_never_reaches_a_target() -> None:
    record = learned(half)
    target = the(record)
    (found,) = times(target)
    assert (found.both, found.only_arm, found.only_baseline, found.neither) == (20, 0, 20, 0)
    assert (found.verdict, found.more_often) == ("inconclusive", PORTABLE)
    portable, xla = target.arms
    assert (portable.time_s.trials, portable.time_s.reached, portable.diverged) == (40, 40, 0)
    assert (xla.time_s.trials, xla.time_s.reached, xla.diverged) == (40, 20, 20)
    assert "20 of 40, 20 diverged" in text(record)


def test_what_it_had_learned_before_it_diverged_reaches_nothing() -> None:
    trials = [learner(arm, block) for block in range(8) for arm in (PORTABLE, XLA)]
    broken = trial(XLA, 8, status="failed", failure=NAN, epochs=EPOCHS, metrics={})
    record = sweep([*trials, learner(PORTABLE, 8), broken], settings={"target_accuracy": 0.8})
    (found,) = times(the(record))
    assert (found.both, found.only_baseline) == (8, 1)


def test_other_failures_say_nothing_of_what_is_learned() -> None:
    record = learned(lambda arm, block: half(arm, block, KILLED))
    (found,) = times(the(record))
    assert (found.both, found.only_baseline, found.more_often) == (20, 0, None)
    assert found.verdict == "same"
    assert accuracy(record).verdict == "equal"


def test_an_arm_that_always_diverges_reached_it_in_no_block() -> None:
    record = learned(lambda arm, _: NAN if arm == XLA else "", blocks=8)
    target = the(record)
    (found,) = times(target)
    assert (found.both, found.only_baseline, found.more_often) == (0, 8, PORTABLE)
    xla = target.arms[1]
    assert (xla.time_s.trials, xla.time_s.reached, xla.cost_usd) == (8, 0, None)
    assert (
        f"no block in which both tensorflow/portable+xla and tensorflow/portable on {CPU} reach "
        "val_accuracy 0.8 (only tensorflow/portable in 8); tensorflow/portable reaches it "
        "significantly more often"
    ) in text(record)


def test_an_arm_that_completes_nothing_and_diverges_once_holds_up_no_other() -> None:
    def failed(arm: Arm, block: int) -> str:
        return (KILLED if block else NAN) if arm == UNROLL else ""

    found = times(the(learned(failed, 8, (PORTABLE, XLA, UNROLL))))
    assert [(each.arm, each.both, each.only_baseline) for each in found] == [
        (XLA, 8, 0),
        (UNROLL, 0, 1),
    ]


def test_where_all_diverge_nothing_is_known_of_a_target() -> None:
    record = learned(lambda *_: NAN, blocks=8)
    assert reach(record, match(record), pick_baseline(record, None)) == ()


def test_equal_accuracies_are_not_shown_by_those_that_did_not_diverge() -> None:
    found = accuracy(learned(half))
    assert found.difference.n == 20
    assert (found.verdict, found.diverged, found.baseline_diverged) == ("inconclusive", 20, 0)
    shown = text(learned(half))
    assert "costs no accuracy" not in shown
    assert (
        "its accuracy is inconclusive (its training diverged in 20 blocks in which the "
        "baseline's did not; difference 0.000 to 0.000, margin 0.005)"
    ) in shown


def test_one_block_that_only_the_baseline_lost_is_told_as_well() -> None:
    record = learned(lambda arm, block: NAN if arm == PORTABLE and block == 3 else "", blocks=9)
    found = accuracy(record)
    assert (found.verdict, found.baseline_diverged) == ("inconclusive", 1)
    assert found.reason == "the baseline's training diverged in 1 block in which its did not"


def test_where_both_diverge_the_others_are_as_good_as_ever() -> None:
    record = learned(lambda _, block: NAN if block < 20 else "")
    found = accuracy(record)
    assert (found.verdict, found.diverged, found.baseline_diverged) == ("equal", 0, 0)
    (times_,) = times(the(record))
    assert (times_.both, times_.neither, times_.verdict) == (20, 20, "same")


@pytest.mark.parametrize(
    ("arm", "gain", "verdict"),
    [
        (XLA, 0.05, "inconclusive"),
        (XLA, -0.05, "worse"),
        (PORTABLE, 0.05, "better"),
        (PORTABLE, -0.05, "inconclusive"),
    ],
)
def test_diverging_speaks_for_no_other_side(arm: Arm, gain: float, verdict: str) -> None:
    """What is more accurate where it did not diverge is not more accurate; the other may be."""
    trials = [
        trial(each, block, status="failed", failure=NAN, metrics={})
        if each == arm and block == 8
        else trial(each, block, val_accuracy=0.8 + (gain if each == XLA else 0.001 * block))
        for block in range(9)
        for each in (PORTABLE, XLA)
    ]
    assert accuracy(sweep(trials)).verdict == verdict


def test_a_repeat_that_diverged_is_told_beside_one_that_did_not() -> None:
    trials = [
        learner(arm, block, repeat, NAN if (arm, repeat) == (XLA, 1) else "")
        for block in range(8)
        for repeat in (0, 1)
        for arm in (PORTABLE, XLA)
    ]
    found = accuracy(sweep(trials))
    assert (found.difference.n, found.verdict, found.diverged) == (8, "inconclusive", 8)
