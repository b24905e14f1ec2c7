"""What a reader may trust: quiet rounds, equal accuracies, corrected intervals, fair sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.pairing.pairs import RoundValue, timed_pairs
from orchestrator.analysis.statistics.estimates import t_interval
from orchestrator.analysis.statistics.stopping_looks import looks
from orchestrator.analysis.statistics.verdicts import judge
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, Margins, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import render, summarise
from orchestrator.report.wording.sentences import arm_names, verdict_sentence
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import (
    CPU,
    GPU,
    PORTABLE,
    UNROLL,
    XLA,
    changed,
    paired,
    sweep,
    trial,
)

TIMED = Arm("tensorflow/portable+xla", in_slices(CPU))
TIMED_BASE = Arm("tensorflow/portable", in_slices(CPU))
OTHERS = {"other_processes": 43.0}


def only(record: SweepRecord) -> Comparison:
    (comparison,) = summarise(record).comparisons
    return comparison


def sentence(record: SweepRecord) -> str:
    summary = summarise(record)
    return verdict_sentence(summary.comparisons[0], arm_names(summary))


def text(record: SweepRecord) -> str:
    return " ".join(render(summarise(record), "text").split())


def with_noise(
    disturbed: Mapping[int, Arm], blocks: int = 8, repeats: int = 1, **changes: Any
) -> SweepRecord:
    """XLA 1.25 × as fast; disturbed blocks' first rounds took one arm a hundred times as long."""
    trials = [
        trial(
            arm,
            block,
            repeat,
            step_ms=(10.0 if arm == PORTABLE else 8.0) * (100 if hit else 1),
            disturbance=OTHERS if hit else {},
        )
        for block in range(blocks)
        for repeat in range(repeats)
        for arm in (PORTABLE, XLA)
        for hit in (disturbed.get(block) == arm and repeat == 0,)
    ]
    return sweep(trials, **changes)


def test_disturbed_rounds_are_left_out_where_six_blocks_have_a_quiet_one() -> None:
    found = only(with_noise({1: XLA, 5: PORTABLE}))
    assert found.speedup is not None and found.speedup.value == pytest.approx(1.25)
    assert [pair.block for pair in found.pairs] == [0, 2, 3, 4, 6, 7]
    assert (found.quiet_only, found.disturbed_blocks) == (True, (1, 5))
    said = sentence(with_noise({1: XLA, 5: PORTABLE}))
    assert "over 6 blocks (quiet rounds only: 2 blocks had a disturbed one)" in said


def test_a_block_with_another_quiet_round_stays() -> None:
    found = only(with_noise({1: XLA}, blocks=6, repeats=2))
    assert [pair.rounds for pair in found.pairs] == [2, 1, 2, 2, 2, 2]
    assert found.speedup is not None and found.speedup.value == pytest.approx(1.25)


def test_where_fewer_are_quiet_all_count_and_the_sentence_says_so() -> None:
    record = with_noise({1: XLA, 3: PORTABLE}, blocks=7)
    found = only(record)
    assert (len(found.pairs), found.quiet_only, found.disturbed_blocks) == (7, False, (1, 3))
    assert found.corrected is not None
    assert "over 7 blocks (2 of them disturbed: other processes took 43 % of the CPUs)" in sentence(
        record
    )
    assert "7 (2 disturbed)" in text(record)
    few = sentence(with_noise({1: XLA}, blocks=3))
    assert few.endswith("at least 6 are needed; disturbed: other processes took 43 % of the CPUs)")


def under_a_hog(blocks: int, hit: int) -> SweepRecord:
    """Equal arms, in some blocks beside a busy core, which slows the first one down alone."""
    trials = [
        trial(
            arm,
            block,
            step_ms=10.0 * (1 + 0.01 * (block % 3)) * (slowed if block < hit else 1.0),
            val_accuracy=0.9,
            disturbance=OTHERS if block < hit else {},
        )
        for block in range(blocks)
        for arm, slowed in ((PORTABLE, 1.8), (XLA, 0.98))
    ]
    return sweep(trials)


def test_where_more_than_a_third_are_disturbed_they_decide_nothing() -> None:
    """Of ten blocks five beside a hog: by all of them the arm that bears it would be faster."""
    record = under_a_hog(10, 5)
    found = only(record)
    assert (len(found.pairs), found.speedup is not None, found.corrected) == (10, True, None)
    assert found.speedup is not None and found.speedup.low > 1
    assert (found.verdict, found.confidence, found.p_value) == ("inconclusive", None, None)
    why = (
        "5 of 10 blocks were quiet, and 6 are needed where more than a third are disturbed: run "
        "with disturbed: rerun, or on a quieter node"
    )
    assert found.reason == why
    assert f"({why}; disturbed: other processes took 43 % of the CPUs)" in sentence(record)
    assert sentence(record).endswith(
        "; their accuracies are equal (difference 0.000 to 0.000, within 0.005)"
    )
    assert only(under_a_hog(11, 5)).verdict == "same"  # six quiet ones are enough
    assert only(under_a_hog(7, 2)).reason != why


def test_neither_do_they_of_who_is_sooner_at_a_target() -> None:
    trials = [
        changed(each, metrics={**each.metrics, "time_to_accuracy_s": each.metrics["step_ms"]})
        for each in under_a_hog(10, 5).trials
    ]
    record = sweep(trials, settings={"target_accuracy": 0.8})
    (target,) = summarise(record).targets
    (found,) = target.comparisons
    assert (len(found.pairs), found.both, found.corrected) == (10, 10, None)
    assert found.verdict == "inconclusive"
    assert (found.reason or "").startswith("5 of 10 blocks were quiet")
    assert "run with disturbed: rerun, or on a quieter node" in text(record)


def test_one_arm_under_a_hog_makes_the_others_intervals_no_wider() -> None:
    trials = [
        trial(arm, block, step_ms=10.0 + 0.01 * (block % 3 + len(arm.implementation)),
              disturbance=OTHERS if arm == UNROLL and block < 4 else {})
        for block in range(8)
        for arm in (PORTABLE, XLA, UNROLL)
    ]  # fmt: skip
    xla, unroll = summarise(sweep(trials, (PORTABLE, XLA, UNROLL))).comparisons
    assert xla.confidence == pytest.approx(0.95)
    assert unroll.confidence is None


def test_what_disturbed_one_arm_is_nothing_to_the_others() -> None:
    trials = [
        trial(arm, block, disturbance=OTHERS if arm == UNROLL and block < 4 else {})
        for block in range(8)
        for arm in (PORTABLE, XLA, UNROLL)
    ]
    xla, unroll = summarise(sweep(trials, (PORTABLE, XLA, UNROLL))).comparisons
    assert (len(xla.pairs), xla.disturbed_blocks, xla.quiet_only) == (8, (), True)
    assert (unroll.disturbed_blocks, unroll.quiet_only) == ((0, 1, 2, 3), False)
    assert (unroll.reason or "").startswith("4 of 8 blocks were quiet")


def test_a_disturbance_takes_nothing_from_the_accuracies() -> None:
    found = only(with_noise({1: XLA, 5: PORTABLE})).accuracy
    assert found is not None and found.difference.n == 8


def test_a_disturbed_round_that_one_side_lacks_is_no_reason_to_doubt() -> None:
    """Two of seven blocks are disturbed where both are; in a third one, the base was alone."""
    rounds = [(block, 0) for block in range(7)]
    values = {
        PORTABLE: {each: RoundValue(10.0, ()) for each in [*rounds, (2, 1)]},
        XLA: {each: RoundValue(8.0, ()) for each in rounds},
    }
    hog = {"other_processes": 90.0}
    reasons = {PORTABLE: {(0, 0): hog, (2, 1): {"host_steal": 9.0}}, XLA: {(1, 0): hog}}
    found = timed_pairs(values, reasons, XLA, PORTABLE)
    assert (found.disturbed, found.disturbance_reason) == ({0: hog, 1: hog}, None)
    assert len(found.verdict_pairs) == 7


def scattered(
    ratio: float, sd: float, blocks: int = 12, accuracy: Callable[[int], float] = lambda _: 0.0
) -> SweepRecord:
    """XLA so many times as fast, with noise of that deviation, and so much more accurate."""
    noise = np.random.default_rng(5).normal(0.0, 1.0, blocks)
    noise = sd * (noise - noise.mean()) / noise.std(ddof=1)
    trials = [
        each
        for block in range(blocks)
        for each in (
            trial(PORTABLE, block, val_accuracy=0.9),
            trial(
                XLA,
                block,
                step_ms=10.0 / ratio * float(np.exp(noise[block])),
                val_accuracy=0.9 + accuracy(block),
            ),
        )
    ]
    return sweep(trials)


def test_same_is_within_the_margin_whatever_else_the_interval_excludes() -> None:
    found = only(scattered(1.005, 0.004))
    assert found.corrected is not None and 1 < found.corrected.low < found.corrected.high < 1.02
    assert (found.verdict, found.reason) == ("same", None)
    assert sentence(scattered(1.005, 0.004)).startswith(
        f"tensorflow/portable+xla and tensorflow/portable on {CPU} are equally fast within 2 % "
        "(1.0024–1.0076), over 12 blocks"
    )


def test_the_margin_is_the_specs() -> None:
    criteria = ReportCriteria(margins=Margins(speed=0.001, accuracy=0.02))
    found = only(sweep(scattered(1.005, 0.004, accuracy=lambda _: 0.01).trials, criteria=criteria))
    assert (found.verdict, found.margin) == ("faster", 0.001)
    assert found.accuracy is not None
    assert (found.accuracy.verdict, found.accuracy.margin) == ("equal", 0.02)


@pytest.mark.parametrize(
    ("accuracy", "verdict", "said"),
    [
        (lambda b: 0.001 * (b % 3 - 1), "equal", ", and costs no accuracy (difference -0.0005 to"),
        (lambda b: 0.03 * (b % 3 - 1), "inconclusive", "; its accuracy is inconclusive ("),
        (lambda b: 0.02 + 0.001 * (b % 3), "better", ", and is more accurate (difference +0.0"),
        (lambda b: -0.02 - 0.001 * (b % 3), "worse", ", and is less accurate (difference -0.0"),
    ],
)
def test_it_costs_no_accuracy_only_where_that_is_shown(
    accuracy: Callable[[int], float], verdict: str, said: str
) -> None:
    record = scattered(2.0, 0.05, accuracy=accuracy)
    found = only(record)
    assert found.accuracy is not None and found.accuracy.verdict == verdict
    assert said in sentence(record)
    assert ("costs no accuracy" in sentence(record)) == (verdict == "equal")


def test_few_blocks_say_nothing_of_accuracy() -> None:
    found = only(scattered(2.0, 0.05, blocks=5)).accuracy
    assert found is not None
    assert (found.corrected, found.verdict) == (None, "inconclusive")
    assert "accura" not in sentence(scattered(2.0, 0.05, blocks=5))


def test_what_cannot_be_told_says_what_would_tell() -> None:
    """± t(n-1) * 0.05 / sqrt(n) is within log(1.02) from 27 blocks on: 15 more than 12."""
    record = scattered(1.02, 0.05)
    assert only(record).verdict == "inconclusive"
    assert sentence(record).endswith("; about 15 more blocks would give ± 2 %")
    assert sentence(scattered(1.02, 0.5)).endswith("; about 2,400 more blocks would give ± 2 %")


def test_timing_is_compared_with_training_by_time_per_step_only_and_that_is_said() -> None:
    trials = [
        each
        for block in range(7)
        for each in (
            trial(PORTABLE, block, step_ms=10.0, train_s=100.0),
            trial(TIMED, block, metrics={"step_ms": 5.0}),
        )
    ]
    record = sweep(trials, (PORTABLE, TIMED))
    found = only(record)
    assert (found.measures, found.accuracy) == (("timing", "full"), None)
    assert found.speedup is not None and found.speedup.value == pytest.approx(2.0)
    assert "by time per step alone (timed in slices against whole trainings)" in sentence(record)


def test_times_that_grow_with_the_work_are_not_compared_with_slices() -> None:
    trials = [
        trial(arm, block, metrics={"train_s": 10.0, "val_accuracy": 0.9})
        for block in range(7)
        for arm in (PORTABLE, TIMED)
    ]
    assert only(sweep(trials, (PORTABLE, TIMED))).pairs == ()


def test_two_timing_arms_are_a_fair_pair_without_accuracies() -> None:
    trials = [
        trial(arm, block, metrics={"step_ms": time, "val_accuracy": 0.1})
        for block in range(7)
        for arm, time in ((TIMED_BASE, 10.0), (TIMED, 5.0))
    ]
    found = only(sweep(trials, (TIMED_BASE, TIMED)))
    assert (found.verdict, found.measures, found.accuracy) == ("faster", ("timing",) * 2, None)


def test_blocks_whose_trials_lie_days_apart_are_told() -> None:
    day_s = 86_400.0
    trials = [
        trial(arm, block, started_s=1e9 + (3 * day_s if (arm, block) == (XLA, 2) else 60.0 * block))
        for block in range(8)
        for arm in (PORTABLE, XLA)
    ]
    said = text(sweep(trials))
    assert "In 1 of 8 blocks trials started more than a day apart, at most 3 days" in said
    assert "day apart" not in text(paired(8))


def test_rounds_whose_arms_ran_on_unlike_nodes_of_a_class_are_counted() -> None:
    """In block 2 a node was lost between two arms; the GPU's node is another class's."""
    arms = (PORTABLE, XLA, Arm("tensorflow/portable", GPU))
    trials = [
        trial(arm, block, node="c" if arm.hardware == GPU else "b" if block > 2 else "a")
        for block in range(7)
        for arm in arms
    ]
    lost = [changed(t, node="b") if (t.arm, t.block) == (XLA, 2) else t for t in trials]
    assert summarise(sweep(lost, arms)).validity.split_rounds == 1
    said = "In 1 of 7 rounds arms of one hardware class ran on different nodes"
    assert said in text(sweep(lost, arms))
    assert "ran on different nodes" not in text(sweep(trials, arms))


def scattered_among(arms: int) -> SweepRecord:
    """So many equal arms, with noise."""
    rng, own = np.random.default_rng(2), (PORTABLE, XLA, UNROLL)[:arms]
    trials = [
        trial(arm, block, step_ms=float(10.0 * np.exp(rng.normal(0.0, 0.05))))
        for block in range(10)
        for arm in own
    ]
    return sweep(trials, own)


def test_several_comparisons_have_corrected_intervals() -> None:
    record = scattered_among(3)
    for each in summarise(record).comparisons:
        assert each.speedup is not None and each.corrected is not None
        assert each.corrected.low < each.speedup.low < each.speedup.high < each.corrected.high
        assert each.confidence == pytest.approx(0.975)
    assert "corrected" in text(record).partition("Speed-up over")[2][:100]
    assert "which allow for 2 comparisons (Holm's procedure" in text(record)
    assert "Holm" not in text(paired(8))


def test_what_a_promise_is_of_is_said() -> None:
    """Rankings, accuracies and targets are families of their own, each of which may be wrong."""
    said = text(scattered_among(3))
    assert "a wrong faster or slower occurs in at most 5 % of sweeps" in said
    assert "This covers these speed-ups only. Accuracies, each ranking," in said
    assert "of reports" not in said


def test_a_sweep_that_stops_by_its_widths_has_wider_intervals() -> None:
    plain = scattered(1.1, 0.05)
    auto = sweep(plain.trials, criteria=ReportCriteria(auto_blocks=AutoBlocks()))
    one, other = only(plain), only(auto)
    assert (one.plain_confidence, other.plain_confidence) == (0.95, 0.97)
    assert one.speedup is not None and other.speedup is not None
    assert other.speedup.low < one.speedup.low
    assert other.corrected == other.speedup
    assert (
        "They are computed at 97 %, so that 95 % of the intervals at which it stops are right"
        in text(auto)
    )


@pytest.mark.parametrize("sd", [0.01, 0.02, 0.03])
def test_equal_arms_stay_so_when_blocks_are_added_until_intervals_are_narrow(sd: float) -> None:
    """In at most 5 % of the reports of four arms is one of them called faster or slower."""
    auto, reports = AutoBlocks(interval=0.01, least=6, most=40), 1000
    rng = np.random.default_rng([9, int(1000 * sd)])
    wrong = 0
    for draws in rng.normal(0.0, sd, (reports, 4, auto.most)):
        for blocks in looks(auto):
            arms = [arm[:blocks].tolist() for arm in draws]
            intervals = [t_interval(arm, 0.97) for arm in arms]
            if max(each.high - each.value for each in intervals if each) <= auto.interval:
                break
        found = judge(arms, 1e-9, error=0.03)
        wrong += any(each.finding in ("more", "less") for each in found)
    assert wrong / reports <= 0.05 + 4 * (0.05 * 0.95 / reports) ** 0.5
