"""Test that trainings that diverged contradict equal accuracies, instead of being dropped."""

from __future__ import annotations

import pytest

from orchestrator.analysis.comparisons.accuracy import AccuracyComparison
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import summarise
from tests.orchestrator.analysis.known_sweeps import NAN, RISING, Ending, learning, training
from tests.orchestrator.sample_records import PORTABLE, XLA, sweep, trial

KILLED = "out_of_memory: the trainer needed more than 4 GiB"


def accuracy(record: SweepRecord) -> AccuracyComparison:
    (compared,) = (row.accuracy for row in summarise(record).comparisons)
    assert compared is not None
    return compared


@pytest.mark.parametrize(
    ("endings", "expected"),
    [
        ((RISING, NAN), ("inconclusive", 4, 0)),
        ((NAN, RISING), ("inconclusive", 0, 4)),
        ((NAN, NAN), ("equal", 0, 0)),
        ((RISING, KILLED), ("equal", 0, 0)),
    ],
)
def test_equal_accuracies_are_inconclusive_if_one_arm_diverged(
    endings: tuple[Ending, Ending], expected: tuple[str, int, int]
) -> None:
    compared = accuracy(learning(dict.fromkeys(range(4), endings), 12))
    assert (compared.verdict, compared.diverged, compared.baseline_diverged) == expected
    assert compared.difference.n == 8
    assert (compared.reason is None) == (compared.verdict == "equal")


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
        training(arm, block, NAN if (arm, repeat) == (XLA, 1) else RISING, repeat=repeat)
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
