"""Test which trials enter a speed comparison, and its verdict."""

from __future__ import annotations

import math

import pytest

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.core.trial import DatasetRecord, FinishedTrial
from orchestrator.report.render import ReportSummary, summarise
from tests.orchestrator.sample_records import PORTABLE, UNROLL, XLA, paired, sweep, trial


def sole_comparison(summary: ReportSummary) -> Comparison:
    (comparison,) = summary.comparisons
    return comparison


def test_the_ratio_is_the_baselines_time_over_the_arms() -> None:
    comparison = sole_comparison(summarise(paired(8, lambda block: 2.0 if block % 2 else 0.5)))
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(1.0)
    comparison = sole_comparison(summarise(paired(8)))
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
    comparison = sole_comparison(summarise(paired(blocks)))
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


def test_an_arm_without_a_complete_trial_does_not_affect_the_others() -> None:
    trials = [trial(arm, block) for block in range(6) for arm in (PORTABLE, XLA)]
    trials += [trial(UNROLL, block, status="failed") for block in range(6)]
    summary = summarise(sweep(trials, (PORTABLE, XLA, UNROLL)))
    assert summary.set_aside == (UNROLL,)
    first, second = summary.comparisons
    assert len(first.pairs) == 6
    assert (second.arm, second.speedup, second.verdict) == (UNROLL, None, "inconclusive")
    assert second.reason == f"no trial of {UNROLL} is complete"


def test_with_unequal_repeats_only_rounds_complete_on_every_arm_count() -> None:
    trials = [trial(arm, block) for block in range(6) for arm in (PORTABLE, XLA)]
    trials.append(trial(PORTABLE, 0, 1, step_ms=1e6))  # XLA has no second repeat
    comparison = sole_comparison(summarise(sweep(trials)))
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
    comparison = sole_comparison(summarise(sweep(trials)))
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
    comparison = sole_comparison(summarise(sweep(trials)))
    assert [pair.block for pair in comparison.pairs] == [1, 2, 3, 4, 5, 6]


def test_without_step_times_training_time_is_compared() -> None:
    trials = [
        trial(arm, block, step_ms=None, train_s=3.0 if arm == PORTABLE else 1.5)
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    comparison = sole_comparison(summarise(sweep(trials)))
    assert comparison.metric == "train_s"
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(2.0)


def test_without_any_time_there_is_nothing_to_compare() -> None:
    trials = [trial(arm, block, step_ms=None) for block in range(6) for arm in (PORTABLE, XLA)]
    comparison = sole_comparison(summarise(sweep(trials)))
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
    comparison = sole_comparison(summarise(sweep(trials))).accuracy
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
    comparison = sole_comparison(summarise(sweep(trials, datasets=tuple(data)))).accuracy
    assert comparison is not None
    assert (comparison.step, comparison.margin) == (step, step or 0.005)


def test_rounds_and_blocks_of_several_configs_are_never_pooled() -> None:
    trials = [trial(arm, block, repeat) for block in range(7) for repeat in (0, 1)
              for arm in (PORTABLE, XLA) if (block, repeat) != (3, 1)]  # fmt: skip
    other = [trial(arm, 3, 1, config={"units": 1}, step_ms=1e-9) for arm in (PORTABLE, XLA)]
    of_round = summarise(sweep([*trials, trial(PORTABLE, 3, 1), other[1]]))
    assert [pair.rounds for pair in sole_comparison(of_round).pairs] == [2, 2, 2, 1, 2, 2, 2]
    assert of_round.gaps == ()
    (gap,) = summarise(sweep([*trials, *other])).gaps
    assert gap.missing == ((PORTABLE, "another config"), (XLA, "another config"))
