"""Test which trials enter a comparison, and its verdicts on speed and accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, Margins, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord, FinishedTrial
from orchestrator.report.render import summarise
from orchestrator.report.wording import arm_names, verdict_sentence
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import (
    CPU,
    PORTABLE,
    UNROLL,
    XLA,
    changed,
    paired,
    sweep,
    trial,
)


def only(record: SweepRecord, baseline: str | None = None) -> Comparison:
    (comparison,) = summarise(record, baseline).comparisons
    return comparison


def test_the_ratio_is_the_baselines_time_over_the_arms() -> None:
    comparison = only(paired(8, lambda block: 2.0 if block % 2 else 0.5))
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(1.0)
    comparison = only(paired(8))
    assert comparison.speedup is not None
    assert (comparison.arm, comparison.baseline, comparison.metric) == (XLA, PORTABLE, "step_ms")
    assert comparison.speedup.value == pytest.approx(1.25)
    assert (comparison.verdict, comparison.reason) == ("faster", None)


@pytest.mark.parametrize(
    ("blocks", "has_interval", "reason"),
    [
        (5, True, "5 blocks; at least 6 are needed"),
        (1, False, "1 block; at least 6 are needed"),
        (0, False, f"no trial of {XLA} is complete"),
    ],
)
def test_few_blocks_are_inconclusive(blocks: int, has_interval: bool, reason: str) -> None:
    comparison = only(paired(blocks))
    assert (comparison.verdict, comparison.reason) == ("inconclusive", reason)
    assert (comparison.speedup is not None, comparison.accuracy is not None) == (has_interval,) * 2


@pytest.mark.parametrize("status", ["failed", "wrong_kernel", None])
def test_a_block_that_one_arm_did_not_complete_is_excluded_for_all(status: str | None) -> None:
    trials = [
        trial(arm, block) for block in range(7) for arm in (PORTABLE, XLA, UNROLL)
        if not (block == 3 and arm == UNROLL)
    ]  # fmt: skip
    if status:
        trials.append(trial(UNROLL, 3, status=status, step_ms=1e9))
    summary = summarise(sweep(trials, (PORTABLE, XLA, UNROLL)))
    assert summary.complete_blocks == (0, 1, 2, 4, 5, 6)
    assert [len(comparison.pairs) for comparison in summary.comparisons] == [6, 6]
    (gap,) = summary.gaps
    assert (gap.block, gap.missing) == (3, ((UNROLL, status or "missing"),))


def test_with_unequal_repeats_only_rounds_complete_on_every_arm_count() -> None:
    trials = [trial(arm, block) for block in range(6) for arm in (PORTABLE, XLA)]
    trials.append(trial(PORTABLE, 0, 1, step_ms=1e6))  # XLA has no second repeat
    comparison = only(sweep(trials))
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(1.0)
    assert [pair.rounds for pair in comparison.pairs] == [1] * 6


def test_repeats_are_averaged_before_the_ratio() -> None:
    """The ratio of a block is the geometric mean of the ratios of its rounds, 2 and 6."""
    trials = [
        trial(arm, block, repeat, step_ms=time)
        for block in range(6)
        for arm, times in ((PORTABLE, (10.0, 30.0)), (XLA, (5.0, 5.0)))
        for repeat, time in enumerate(times)
    ]
    comparison = only(sweep(trials))
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(math.sqrt(2.0 * 6.0))
    assert comparison.pairs[0].baseline == pytest.approx(math.sqrt(10.0 * 30.0))
    assert comparison.speedup.n == 6  # blocks are the unit


def test_blocks_whose_repeats_share_no_round_are_incomplete() -> None:
    trials = [trial(arm, block) for block in range(2) for arm in (PORTABLE, XLA)]
    trials += [trial(PORTABLE, 2, 0), trial(XLA, 2, 1)]
    summary = summarise(sweep(trials))
    assert summary.complete_blocks == (0, 1)
    assert summary.gaps[0].missing == ((PORTABLE, "no shared round"), (XLA, "no shared round"))


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 0.0, -1.0])
def test_a_missing_or_impossible_time_excludes_its_block(value: float | None) -> None:
    trials = list(paired(7).trials)
    trials[0] = trial(PORTABLE, 0, step_ms=value)
    comparison = only(sweep(trials))
    assert [pair.block for pair in comparison.pairs] == [1, 2, 3, 4, 5, 6]


def test_without_step_times_training_time_is_compared() -> None:
    trials = [
        trial(arm, block, step_ms=None, train_s=3.0 if arm == PORTABLE else 1.5)
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    comparison = only(sweep(trials))
    assert comparison.metric == "train_s"
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(2.0)


def test_without_any_time_there_is_nothing_to_compare() -> None:
    trials = [trial(arm, block, step_ms=None) for block in range(6) for arm in (PORTABLE, XLA)]
    comparison = only(sweep(trials))
    assert (comparison.metric, comparison.pairs, comparison.verdict) == (None, (), "inconclusive")
    assert comparison.reason == "neither step_ms nor train_s was recorded on two arms"
    assert comparison.accuracy is not None


def test_the_accuracy_difference_is_paired() -> None:
    trials: list[FinishedTrial] = []
    for block in range(6):
        accuracy = 0.5 + block / 20
        trials += [
            trial(PORTABLE, block, val_accuracy=accuracy),
            trial(XLA, block, val_accuracy=accuracy + 0.01),
        ]
    comparison = only(sweep(trials)).accuracy
    assert comparison is not None
    difference = comparison.difference
    assert (difference.value, difference.low, difference.high) == pytest.approx((0.01,) * 3)
    assert (comparison.verdict, comparison.margin) == ("better", 0.005)


@pytest.mark.parametrize(
    ("samples", "accuracies", "step"),
    [
        ((64,), (56, 60), 1 / 64),
        ((64, 128, 0), (56, 60), 1 / 64),  # the smallest number counts
        ((200,), (175, 180), None),  # a step is as wide as the margin
        ((64,), (56.3, 60), None),  # an accuracy over tokens, not samples
        ((), (56, 60), None),
    ],
)
def test_a_margin_narrower_than_one_validation_sample_is_widened_to_it(
    samples: tuple[int, ...], accuracies: tuple[float, float], step: float | None
) -> None:
    """Half of a step is within the margin only if a step is."""
    whole = samples[0] if samples else 64
    trials = [
        trial(arm, block, val_accuracy=accuracies[block % 2 and arm == XLA] / whole)
        for block in range(12)
        for arm in (PORTABLE, XLA)
    ]
    data = [DatasetRecord("digits", "ab" * 32, "scikit-learn", 256, n) for n in samples]
    comparison = only(sweep(trials, datasets=tuple(data))).accuracy
    assert comparison is not None
    assert (comparison.step, comparison.margin) == (step, step or 0.005)


def test_rounds_and_blocks_of_several_configs_are_never_pooled() -> None:
    trials = [trial(arm, block, repeat) for block in range(7) for repeat in (0, 1)
              for arm in (PORTABLE, XLA) if (block, repeat) != (3, 1)]  # fmt: skip
    other = [trial(arm, 3, 1, config={"units": 1}, step_ms=1e-9) for arm in (PORTABLE, XLA)]
    of_round = summarise(sweep([*trials, trial(PORTABLE, 3, 1), other[1]]))
    assert [pair.rounds for pair in of_round.comparisons[0].pairs] == [2, 2, 2, 1, 2, 2, 2]
    assert of_round.gaps == ()
    (gap,) = summarise(sweep([*trials, *other])).gaps
    assert gap.missing == ((PORTABLE, "another config"), (XLA, "another config"))


TIMED = Arm("tensorflow/portable+xla", in_slices(CPU))
OTHERS = {"other_processes": 43.0}


def sentence(record: SweepRecord) -> str:
    summary = summarise(record)
    return verdict_sentence(summary.comparisons[0], arm_names(summary))


def with_noise(disturbed: Mapping[int, Arm], blocks: int = 8, repeats: int = 1) -> SweepRecord:
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
    return sweep(trials)


@pytest.mark.parametrize(
    ("disturbed", "blocks", "repeats", "rounds", "is_quiet"),
    [
        ({1: XLA, 5: PORTABLE}, 8, 1, {0: 1, 2: 1, 3: 1, 4: 1, 6: 1, 7: 1}, True),
        ({1: XLA}, 6, 2, {0: 2, 1: 1, 2: 2, 3: 2, 4: 2, 5: 2}, True),  # another quiet round
        ({1: XLA, 3: PORTABLE}, 7, 1, dict.fromkeys(range(7), 1), False),  # too few are quiet
    ],
)
def test_disturbed_rounds_are_excluded_if_six_blocks_have_a_quiet_one(
    disturbed: dict[int, Arm], blocks: int, repeats: int, rounds: dict[int, int], is_quiet: bool
) -> None:
    comparison = only(with_noise(disturbed, blocks, repeats))
    assert {pair.block: pair.rounds for pair in comparison.pairs} == rounds
    assert comparison.quiet_only == is_quiet
    assert comparison.disturbed_blocks == tuple(disturbed)
    assert comparison.speedup is not None and comparison.corrected is not None
    assert comparison.speedup.value == pytest.approx(1.25)
    assert comparison.accuracy is not None
    assert comparison.accuracy.difference.n == blocks  # a disturbance does not change it


def under_load(blocks: int, disturbed: int) -> SweepRecord:
    """Make a sweep of equal arms; a busy core slows the first one in the disturbed blocks."""
    trials = [
        trial(
            arm,
            block,
            step_ms=10.0 * (1 + 0.01 * (block % 3)) * (slowdown if block < disturbed else 1.0),
            disturbance=OTHERS if block < disturbed else {},
        )
        for block in range(blocks)
        for arm, slowdown in ((PORTABLE, 1.8), (XLA, 0.98))
    ]
    return sweep(trials)


def test_more_than_a_third_of_disturbed_blocks_is_inconclusive() -> None:
    """Five of ten blocks are disturbed; by all ten, the less affected arm would be faster."""
    comparison = only(under_load(10, 5))
    assert comparison.speedup is not None and comparison.speedup.low > 1
    assert (len(comparison.pairs), comparison.verdict) == (10, "inconclusive")
    assert (comparison.corrected, comparison.confidence, comparison.p_value) == (None, None, None)
    assert (comparison.reason or "").startswith("5 of 10 blocks were quiet")
    assert comparison.accuracy is not None and comparison.accuracy.verdict == "equal"
    assert only(under_load(11, 5)).verdict == "same"  # six quiet ones are enough
    assert "were quiet" not in (only(under_load(7, 2)).reason or "")


def test_disturbance_of_one_arm_does_not_affect_the_others() -> None:
    trials = [
        trial(
            arm,
            block,
            step_ms=10.0 + 0.01 * (block % 3 + len(arm.implementation)),
            disturbance=OTHERS if arm == UNROLL and block < 4 else {},
        )
        for block in range(8)
        for arm in (PORTABLE, XLA, UNROLL)
    ]
    xla, unroll = summarise(sweep(trials, (PORTABLE, XLA, UNROLL))).comparisons
    assert (len(xla.pairs), xla.disturbed_blocks, xla.quiet_only) == (8, (), True)
    assert (unroll.disturbed_blocks, unroll.quiet_only) == ((0, 1, 2, 3), False)
    assert xla.confidence == pytest.approx(0.95)
    assert unroll.confidence is None


def scattered(
    ratio: float, sd: float, blocks: int = 12, accuracy: Callable[[int], float] = lambda _: 0.0,
    **changes: Any,
) -> SweepRecord:  # fmt: skip
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
    return sweep(trials, **changes)


@pytest.mark.parametrize(("margin", "verdict"), [(0.02, "same"), (0.001, "faster")])
def test_an_interval_within_the_margin_is_the_same_even_if_it_excludes_one(
    margin: float, verdict: str
) -> None:
    criteria = ReportCriteria(margins=Margins(speed=margin, accuracy=0.02))
    comparison = only(scattered(1.005, 0.004, accuracy=lambda _: 0.01, criteria=criteria))
    assert comparison.corrected is not None
    assert 1 < comparison.corrected.low < comparison.corrected.high < 1.02
    assert (comparison.verdict, comparison.reason, comparison.margin) == (verdict, None, margin)
    assert comparison.accuracy is not None
    assert (comparison.accuracy.verdict, comparison.accuracy.margin) == ("equal", 0.02)


@pytest.mark.parametrize(
    ("accuracy", "blocks", "verdict", "phrase"),
    [
        (lambda b: 0.001 * (b % 3 - 1), 12, "equal", ", and costs no accuracy (difference"),
        (lambda b: 0.03 * (b % 3 - 1), 12, "inconclusive", "; its accuracy is inconclusive ("),
        (lambda b: 0.02 + 0.001 * (b % 3), 12, "better", ", and is more accurate (difference"),
        (lambda b: -0.02 - 0.001 * (b % 3), 12, "worse", ", and is less accurate (difference"),
        (lambda _: 0.0, 5, "inconclusive", ""),
    ],
)
def test_an_arm_costs_no_accuracy_only_if_the_accuracies_are_equal(
    accuracy: Callable[[int], float], blocks: int, verdict: str, phrase: str
) -> None:
    record = scattered(2.0, 0.05, blocks, accuracy)
    comparison = only(record)
    assert comparison.accuracy is not None and comparison.accuracy.verdict == verdict
    assert phrase in sentence(record)
    assert ("costs no accuracy" in sentence(record)) == (verdict == "equal")
    assert ("accura" in sentence(record)) == bool(phrase)


def test_timing_and_full_training_are_compared_by_time_per_step_only() -> None:
    trials = [
        finished
        for block in range(7)
        for finished in (
            trial(PORTABLE, block, step_ms=10.0, train_s=100.0),
            trial(TIMED, block, metrics={"step_ms": 5.0}),
        )
    ]
    comparison = only(sweep(trials, (PORTABLE, TIMED)))
    assert (comparison.measures, comparison.accuracy) == (("timing", "full"), None)
    assert comparison.speedup is not None and comparison.speedup.value == pytest.approx(2.0)
    without_steps = [changed(t, metrics={"train_s": 10.0, "val_accuracy": 0.9}) for t in trials]
    assert only(sweep(without_steps, (PORTABLE, TIMED))).pairs == ()


def test_automatic_blocks_widen_the_intervals() -> None:
    one = only(scattered(1.1, 0.05))
    other = only(scattered(1.1, 0.05, criteria=ReportCriteria(auto_blocks=AutoBlocks())))
    assert (one.plain_confidence, other.plain_confidence) == (0.95, 0.97)
    assert one.speedup is not None and other.speedup is not None
    assert other.speedup.low < one.speedup.low
    assert other.corrected == other.speedup
