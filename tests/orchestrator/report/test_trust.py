"""Reliability of verdicts: quiet rounds, equal accuracies and corrected intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.pairing.pairs import RoundValue, pair_times
from orchestrator.analysis.statistics.estimates import t_interval
from orchestrator.analysis.statistics.stopping_looks import looks
from orchestrator.analysis.statistics.verdicts import judge
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, Margins, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import render, summarise
from orchestrator.report.wording import arm_names, verdict_sentence
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
    """Make a sweep in which XLA is 1.25 × as fast.

    In the first round of a disturbed block, one arm takes a hundred times as long.
    """
    trials = [
        trial(
            arm,
            block,
            repeat,
            step_ms=(10.0 if arm == PORTABLE else 8.0) * (100 if is_disturbed else 1),
            disturbance=OTHERS if is_disturbed else {},
        )
        for block in range(blocks)
        for repeat in range(repeats)
        for arm in (PORTABLE, XLA)
        for is_disturbed in (disturbed.get(block) == arm and repeat == 0,)
    ]
    return sweep(trials, **changes)


def test_disturbed_rounds_are_excluded_if_six_blocks_have_a_quiet_one() -> None:
    comparison = only(with_noise({1: XLA, 5: PORTABLE}))
    assert comparison.speedup is not None and comparison.speedup.value == pytest.approx(1.25)
    assert [pair.block for pair in comparison.pairs] == [0, 2, 3, 4, 6, 7]
    assert (comparison.quiet_only, comparison.disturbed_blocks) == (True, (1, 5))
    verdict = sentence(with_noise({1: XLA, 5: PORTABLE}))
    assert "over 6 blocks (quiet rounds only: 2 blocks had a disturbed one)" in verdict


def test_a_block_with_another_quiet_round_counts() -> None:
    comparison = only(with_noise({1: XLA}, blocks=6, repeats=2))
    assert [pair.rounds for pair in comparison.pairs] == [2, 1, 2, 2, 2, 2]
    assert comparison.speedup is not None and comparison.speedup.value == pytest.approx(1.25)


def test_all_rounds_count_if_fewer_than_six_blocks_are_quiet() -> None:
    record = with_noise({1: XLA, 3: PORTABLE}, blocks=7)
    comparison = only(record)
    assert (len(comparison.pairs), comparison.quiet_only, comparison.disturbed_blocks) == (
        7,
        False,
        (1, 3),
    )
    assert comparison.corrected is not None
    assert "over 7 blocks (2 of them disturbed: other processes took 43 % of the CPUs)" in sentence(
        record
    )
    assert "7 (2 disturbed)" in text(record)
    verdict = sentence(with_noise({1: XLA}, blocks=3))
    assert verdict.endswith(
        "at least 6 are needed; disturbed: other processes took 43 % of the CPUs)"
    )


def under_load(blocks: int, disturbed: int) -> SweepRecord:
    """Make a sweep of equal arms; a busy core slows the first one in the disturbed blocks."""
    trials = [
        trial(
            arm,
            block,
            step_ms=10.0 * (1 + 0.01 * (block % 3)) * (slowdown if block < disturbed else 1.0),
            val_accuracy=0.9,
            disturbance=OTHERS if block < disturbed else {},
        )
        for block in range(blocks)
        for arm, slowdown in ((PORTABLE, 1.8), (XLA, 0.98))
    ]
    return sweep(trials)


def test_more_than_a_third_of_disturbed_blocks_is_inconclusive() -> None:
    """Five of ten blocks are disturbed; by all ten, the less affected arm would be faster."""
    record = under_load(10, 5)
    comparison = only(record)
    assert (len(comparison.pairs), comparison.speedup is not None, comparison.corrected) == (
        10,
        True,
        None,
    )
    assert comparison.speedup is not None and comparison.speedup.low > 1
    assert (comparison.verdict, comparison.confidence, comparison.p_value) == (
        "inconclusive",
        None,
        None,
    )
    reason = (
        "5 of 10 blocks were quiet, and 6 are needed where more than a third are disturbed: run "
        "more blocks (blocks: auto), or use a quieter node"
    )
    assert comparison.reason == reason
    assert f"({reason}; disturbed: other processes took 43 % of the CPUs)" in sentence(record)
    assert sentence(record).endswith(
        "; their accuracies are equal (difference 0.000 to 0.000, within 0.005)"
    )
    assert only(under_load(11, 5)).verdict == "same"  # six quiet ones are enough
    assert only(under_load(7, 2)).reason != reason


def test_mostly_disturbed_blocks_make_a_target_comparison_inconclusive() -> None:
    trials = [
        changed(
            finished,
            metrics={**finished.metrics, "time_to_accuracy_s": finished.metrics["step_ms"]},
        )
        for finished in under_load(10, 5).trials
    ]
    record = sweep(trials, settings={"target_accuracy": 0.8})
    (target,) = summarise(record).targets
    (comparison,) = target.comparisons
    assert (len(comparison.pairs), comparison.both, comparison.corrected) == (10, 10, None)
    assert comparison.verdict == "inconclusive"
    assert (comparison.reason or "").startswith("5 of 10 blocks were quiet")
    assert "run more blocks (blocks: auto), or use a quieter node" in text(record)


def test_a_disturbed_arm_does_not_widen_the_intervals_of_others() -> None:
    trials = [
        trial(arm, block, step_ms=10.0 + 0.01 * (block % 3 + len(arm.implementation)),
              disturbance=OTHERS if arm == UNROLL and block < 4 else {})
        for block in range(8)
        for arm in (PORTABLE, XLA, UNROLL)
    ]  # fmt: skip
    xla, unroll = summarise(sweep(trials, (PORTABLE, XLA, UNROLL))).comparisons
    assert xla.confidence == pytest.approx(0.95)
    assert unroll.confidence is None


def test_disturbance_of_one_arm_does_not_affect_the_others() -> None:
    trials = [
        trial(arm, block, disturbance=OTHERS if arm == UNROLL and block < 4 else {})
        for block in range(8)
        for arm in (PORTABLE, XLA, UNROLL)
    ]
    xla, unroll = summarise(sweep(trials, (PORTABLE, XLA, UNROLL))).comparisons
    assert (len(xla.pairs), xla.disturbed_blocks, xla.quiet_only) == (8, (), True)
    assert (unroll.disturbed_blocks, unroll.quiet_only) == ((0, 1, 2, 3), False)
    assert (unroll.reason or "").startswith("4 of 8 blocks were quiet")


def test_disturbed_rounds_count_for_accuracy() -> None:
    accuracy = only(with_noise({1: XLA, 5: PORTABLE})).accuracy
    assert accuracy is not None and accuracy.difference.n == 8


def test_only_rounds_of_both_arms_count_as_disturbed() -> None:
    """Both arms ran seven rounds, two of them disturbed; an eighth ran on the baseline only."""
    rounds = [(block, 0) for block in range(7)]
    values = {
        PORTABLE: {round_key: RoundValue(10.0, ()) for round_key in [*rounds, (2, 1)]},
        XLA: {round_key: RoundValue(8.0, ()) for round_key in rounds},
    }
    load = {"other_processes": 90.0}
    reasons = {PORTABLE: {(0, 0): load, (2, 1): {"host_steal": 9.0}}, XLA: {(1, 0): load}}
    pairing = pair_times(values[XLA], values[PORTABLE], reasons.values())
    assert (pairing.selection.disturbed, pairing.selection.reason) == ({0: load, 1: load}, None)
    assert len(pairing.verdict_log_ratios) == 7


def scattered(
    ratio: float, sd: float, blocks: int = 12, accuracy: Callable[[int], float] = lambda _: 0.0
) -> SweepRecord:
    """Make a sweep in which XLA is `ratio` × as fast, with noise of deviation `sd`."""
    noise = np.random.default_rng(5).normal(0.0, 1.0, blocks)
    noise = sd * (noise - noise.mean()) / noise.std(ddof=1)
    trials = [
        finished
        for block in range(blocks)
        for finished in (
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


def test_an_interval_within_the_margin_is_the_same_even_if_it_excludes_one() -> None:
    comparison = only(scattered(1.005, 0.004))
    assert (
        comparison.corrected is not None
        and 1 < comparison.corrected.low < comparison.corrected.high < 1.02
    )
    assert (comparison.verdict, comparison.reason) == ("same", None)
    assert sentence(scattered(1.005, 0.004)).startswith(
        f"tensorflow/portable+xla and tensorflow/portable on {CPU} are equally fast within 2 % "
        "(1.0024–1.0076), over 12 blocks"
    )


def test_the_spec_sets_the_margins() -> None:
    criteria = ReportCriteria(margins=Margins(speed=0.001, accuracy=0.02))
    comparison = only(
        sweep(scattered(1.005, 0.004, accuracy=lambda _: 0.01).trials, criteria=criteria)
    )
    assert (comparison.verdict, comparison.margin) == ("faster", 0.001)
    assert comparison.accuracy is not None
    assert (comparison.accuracy.verdict, comparison.accuracy.margin) == ("equal", 0.02)


@pytest.mark.parametrize(
    ("accuracy", "verdict", "phrase"),
    [
        (lambda b: 0.001 * (b % 3 - 1), "equal", ", and costs no accuracy (difference -0.0005 to"),
        (lambda b: 0.03 * (b % 3 - 1), "inconclusive", "; its accuracy is inconclusive ("),
        (lambda b: 0.02 + 0.001 * (b % 3), "better", ", and is more accurate (difference +0.0"),
        (lambda b: -0.02 - 0.001 * (b % 3), "worse", ", and is less accurate (difference -0.0"),
    ],
)
def test_an_arm_costs_no_accuracy_only_if_the_accuracies_are_equal(
    accuracy: Callable[[int], float], verdict: str, phrase: str
) -> None:
    record = scattered(2.0, 0.05, accuracy=accuracy)
    comparison = only(record)
    assert comparison.accuracy is not None and comparison.accuracy.verdict == verdict
    assert phrase in sentence(record)
    assert ("costs no accuracy" in sentence(record)) == (verdict == "equal")


def test_accuracy_over_few_blocks_is_inconclusive() -> None:
    accuracy = only(scattered(2.0, 0.05, blocks=5)).accuracy
    assert accuracy is not None
    assert (accuracy.corrected, accuracy.verdict) == (None, "inconclusive")
    assert "accura" not in sentence(scattered(2.0, 0.05, blocks=5))


def test_an_inconclusive_verdict_estimates_the_blocks_needed() -> None:
    """± t(n-1) * 0.05 / sqrt(n) is within log(1.02) from 27 blocks: 15 more than 12."""
    record = scattered(1.02, 0.05)
    assert only(record).verdict == "inconclusive"
    assert sentence(record).endswith("; about 15 more blocks would give ± 2 %")
    assert sentence(scattered(1.02, 0.5)).endswith("; about 2,400 more blocks would give ± 2 %")


def test_timing_and_full_training_are_compared_by_time_per_step_only() -> None:
    trials = [
        finished
        for block in range(7)
        for finished in (
            trial(PORTABLE, block, step_ms=10.0, train_s=100.0),
            trial(TIMED, block, metrics={"step_ms": 5.0}),
        )
    ]
    record = sweep(trials, (PORTABLE, TIMED))
    comparison = only(record)
    assert (comparison.measures, comparison.accuracy) == (("timing", "full"), None)
    assert comparison.speedup is not None and comparison.speedup.value == pytest.approx(2.0)
    assert "by time per step alone (timed in slices against whole trainings)" in sentence(record)


def test_training_times_are_not_compared_with_slices() -> None:
    trials = [
        trial(arm, block, metrics={"train_s": 10.0, "val_accuracy": 0.9})
        for block in range(7)
        for arm in (PORTABLE, TIMED)
    ]
    assert only(sweep(trials, (PORTABLE, TIMED))).pairs == ()


def test_two_timing_arms_are_compared_without_accuracies() -> None:
    trials = [
        trial(arm, block, metrics={"step_ms": time, "val_accuracy": 0.1})
        for block in range(7)
        for arm, time in ((TIMED_BASE, 10.0), (TIMED, 5.0))
    ]
    comparison = only(sweep(trials, (TIMED_BASE, TIMED)))
    assert (comparison.verdict, comparison.measures, comparison.accuracy) == (
        "faster",
        ("timing",) * 2,
        None,
    )


def test_blocks_whose_trials_started_days_apart_are_counted() -> None:
    day_s = 86_400.0
    trials = [
        trial(arm, block, started_s=1e9 + (3 * day_s if (arm, block) == (XLA, 2) else 60.0 * block))
        for block in range(8)
        for arm in (PORTABLE, XLA)
    ]
    report = text(sweep(trials))
    assert "In 1 of 8 blocks trials started more than a day apart, at most 3 days" in report
    assert "day apart" not in text(paired(8))


def test_rounds_split_over_nodes_of_one_hardware_class_are_counted() -> None:
    """A node was lost between two arms of block 2; the GPU's node is of another class."""
    arms = (PORTABLE, XLA, Arm("tensorflow/portable", GPU))
    trials = [
        trial(arm, block, node="c" if arm.hardware == GPU else "b" if block > 2 else "a")
        for block in range(7)
        for arm in arms
    ]
    split = [changed(t, node="b") if (t.arm, t.block) == (XLA, 2) else t for t in trials]
    assert summarise(sweep(split, arms)).validity.split_rounds == 1
    warning = "In 1 of 7 rounds arms of one hardware class ran on different nodes"
    assert warning in text(sweep(split, arms))
    assert "ran on different nodes" not in text(sweep(trials, arms))


def scattered_among(arms: int) -> SweepRecord:
    """Make a sweep of equal arms, with noise."""
    rng, compared = np.random.default_rng(2), (PORTABLE, XLA, UNROLL)[:arms]
    trials = [
        trial(arm, block, step_ms=float(10.0 * np.exp(rng.normal(0.0, 0.05))))
        for block in range(10)
        for arm in compared
    ]
    return sweep(trials, compared)


def test_several_comparisons_have_corrected_intervals() -> None:
    record = scattered_among(3)
    for comparison in summarise(record).comparisons:
        assert comparison.speedup is not None and comparison.corrected is not None
        assert (
            comparison.corrected.low
            < comparison.speedup.low
            < comparison.speedup.high
            < comparison.corrected.high
        )
        assert comparison.confidence == pytest.approx(0.975)
    assert "corrected" in text(record).partition("Speed-up over")[2][:100]
    assert "which allow for 2 comparisons (Holm's procedure" in text(record)
    assert "Holm" not in text(paired(8))


def test_the_report_states_which_verdicts_its_error_rate_covers() -> None:
    """Rankings, accuracies and targets are separate families, each with its own error rate."""
    report = text(scattered_among(3))
    assert "a wrong faster or slower occurs in at most 5 % of sweeps" in report
    assert "This covers these speed-ups only. Accuracies, each ranking," in report
    assert "of reports" not in report


def test_automatic_blocks_widen_the_intervals() -> None:
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
def test_equal_arms_are_rarely_called_different_with_automatic_blocks(sd: float) -> None:
    """At most 5 % of the reports of four arms call one of them faster or slower."""
    auto, reports = AutoBlocks(interval=0.01, least=6, most=40), 1000
    rng = np.random.default_rng([9, int(1000 * sd)])
    wrong = 0
    for draws in rng.normal(0.0, sd, (reports, 4, auto.most)):
        for blocks in looks(auto):
            arms = [arm[:blocks].tolist() for arm in draws]
            intervals = [t_interval(arm, 0.97) for arm in arms]
            if max(part.high - part.value for part in intervals if part) <= auto.interval:
                break
        verdicts = judge(arms, 1e-9, error=0.03)
        wrong += any(verdict.finding in ("more", "less") for verdict in verdicts)
    assert wrong / reports <= 0.05 + 4 * (0.05 * 0.95 / reports) ** 0.5
