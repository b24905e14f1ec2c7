"""Reliability of verdicts: quiet rounds, equal accuracies and corrected intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, Margins, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.report.wording import arm_names, verdict_sentence
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import (
    CPU,
    PORTABLE,
    UNROLL,
    XLA,
    changed,
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
