"""Test comparisons with the baseline: ratios of times, accuracies, verdicts, variants."""

import math
from typing import NamedTuple

import pytest

from orchestrator.analysis.comparisons.results import ResultComparison
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.core.arms import Arm, Usage, Variant
from orchestrator.core.criteria import Margins, ReportCriteria, ResultMargin
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.render import summarise
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.hardware import build_cpu_use, build_gpu_use, build_timing_use
from tests.building.known_records import NAN, RISING, Ending, build_learning_record, build_training
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_timed_trials, build_trial, change_trial

KILLED = "out_of_memory: the trainer needed more than 4 GiB"
TIMED = Arm("tensorflow/portable+xla", build_timing_use(CPU))
FAST = Arm("tensorflow/portable", build_gpu_use("NVIDIA H200", "AMD EPYC", 2))
SHORT = Arm("tensorflow/portable", build_cpu_use(usage=Usage(settings={"epochs": 1})))


def only(record: SweepRecord) -> Comparison:
    (comparison,) = summarise(record).comparisons
    return comparison


def accuracy_of(record: SweepRecord) -> ResultComparison:
    accuracy = only(record).result
    assert accuracy is not None
    return accuracy


def speedup(comparison: Comparison) -> float | None:
    return comparison.speedup.value if comparison.speedup else None


@pytest.mark.parametrize(
    ("blocks", "verdict", "reason"),
    [
        (8, "faster", None),
        (5, "inconclusive", "5 blocks; at least 6 are needed"),
        (0, "inconclusive", f"no trial of {XLA} is complete"),
    ],
)
def test_the_ratio_is_the_baselines_time_over_the_arms(
    blocks: int, verdict: str, reason: str | None
) -> None:
    comparison = only(build_paired_record(blocks))
    assert (comparison.arm, comparison.baseline, comparison.metric) == (
        XLA, PORTABLE, "step_ms" if blocks else None,
    )  # fmt: skip
    assert speedup(comparison) == (pytest.approx(1.25) if blocks > 1 else None)
    assert (comparison.result is None) == (blocks < 2)
    assert (comparison.verdict, comparison.reason) == (verdict, reason)


def test_ratios_are_averaged_geometrically_over_rounds_and_then_over_blocks() -> None:
    """The rounds of a block have the ratios 2 and 6."""
    trials = [
        build_trial(block, arm, repeat, step_ms=time)
        for block in range(6)
        for arm, times in ((PORTABLE, (10.0, 30.0)), (XLA, (5.0, 5.0)))
        for repeat, time in enumerate(times)
    ]
    comparison = only(build_record(trials))
    assert speedup(comparison) == pytest.approx(math.sqrt(2.0 * 6.0))
    assert comparison.pairs[0].baseline == pytest.approx(math.sqrt(10.0 * 30.0))
    assert len(comparison.pairs) == 6  # blocks are the unit
    even = only(build_paired_record(8, lambda block: 2.0 if block % 2 else 0.5))
    assert speedup(even) == pytest.approx(1.0)


@pytest.mark.parametrize("value", [None, math.nan, 0.0])
def test_a_missing_or_impossible_time_excludes_its_block(value: float | None) -> None:
    trials = [build_trial(0, PORTABLE, step_ms=value), *build_paired_record(7).trials[1:]]
    assert [pair.block for pair in only(build_record(trials)).pairs] == [1, 2, 3, 4, 5, 6]


def test_without_step_times_training_time_is_compared() -> None:
    trials = build_timed_trials({PORTABLE: 1, XLA: 1}, 6, step_ms=None)
    nothing = only(build_record(trials))
    assert (nothing.metric, nothing.pairs, nothing.verdict) == (None, (), "inconclusive")
    assert nothing.reason == "neither step_ms nor predict_ms nor train_s was recorded on two arms"
    assert nothing.result is not None
    seconds = {PORTABLE: 3.0, XLA: 1.5}
    comparison = only(
        build_record([change_trial(t, metrics={"train_s": seconds[t.arm]}) for t in trials])
    )
    assert comparison.metric == "train_s"
    assert speedup(comparison) == pytest.approx(2.0)


class ValidationStep(NamedTuple):
    """Numbers of validation samples, samples that were right in even blocks and XLA's in odd
    ones, and the step of the accuracies if it widens a narrower margin."""

    name: str
    samples: list[int]
    accuracies: list[float]
    step: float | None = None


VALIDATION_STEPS = [
    ValidationStep(name="one dataset", samples=[64], accuracies=[56, 60], step=0.015625),
    ValidationStep(name="a step as wide as the margin", samples=[200], accuracies=[175, 180]),
    ValidationStep(
        name="an accuracy over tokens, not samples", samples=[64], accuracies=[56.3, 60]
    ),
]


@pytest.mark.parametrize("case", VALIDATION_STEPS, ids=lambda case: case.name)
def test_a_margin_narrower_than_one_validation_sample_is_widened_to_it(
    case: ValidationStep,
) -> None:
    whole = case.samples[0]
    trials = [
        build_trial(block, arm, val_accuracy=case.accuracies[block % 2 and arm == XLA] / whole)
        for block in range(12)
        for arm in (PORTABLE, XLA)
    ]
    data = [DatasetRecord("digits", "ab" * 32, "scikit-learn", 256, n) for n in case.samples]
    criteria = ReportCriteria(margins=Margins(accuracy=0.005))
    accuracy = accuracy_of(build_record(trials, datasets=tuple(data), criteria=criteria))
    assert accuracy.widened == ("one sample" if case.step else None)
    assert accuracy.margin == (case.step or 0.005)


@pytest.mark.parametrize(
    ("samples", "margins", "margin", "widened"),
    [
        # the standard error of 0.9 on 100 samples, and on 10,000, where the usual margin is wider
        pytest.param(100, Margins(), 0.03, "noise", id="few samples"),
        pytest.param(10_000, Margins(), 0.005, None, id="many samples"),
        pytest.param(
            100,
            Margins(results={"val_accuracy": ResultMargin(0.02)}),
            0.02,
            None,
            id="a margin of the metric",
        ),
    ],
)
def test_the_usual_margin_is_never_finer_than_the_noise_of_the_validation_set(
    samples: int, margins: Margins, margin: float, widened: str | None
) -> None:
    trials = [
        build_trial(block, arm, val_accuracy=0.9) for block in range(8) for arm in (PORTABLE, XLA)
    ]
    data = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1437, samples)
    criteria = ReportCriteria(margins=margins)
    accuracy = accuracy_of(build_record(trials, datasets=(data,), criteria=criteria))
    assert accuracy.margin == pytest.approx(margin)
    assert accuracy.widened == widened
    assert accuracy.validation_samples == samples


BETTER, WORSE = (*RISING[:-1], 0.95), (*RISING[:-1], 0.85)


@pytest.mark.parametrize(
    ("usual", "endings", "expected"),
    [
        (RISING, (NAN, NAN), ("equal", 0, 0)),
        (RISING, (RISING, KILLED), ("equal", 0, 0)),
        (BETTER, (RISING, NAN), ("inconclusive", 4, 0)),
        (WORSE, (RISING, NAN), ("worse", 4, 0)),
        (WORSE, (NAN, WORSE), ("inconclusive", 0, 4)),
    ],
)
def test_divergence_never_favours_the_arm_that_diverged(
    usual: Ending, endings: tuple[Ending, Ending], expected: tuple[str, int, int]
) -> None:
    whole = build_learning_record(dict.fromkeys(range(12), (RISING, usual)), 12)
    others = [change_trial(t, repeat=1) for t in whole.trials]
    lost = build_learning_record(dict.fromkeys(range(4), endings), 4)
    record = build_record([*lost.trials, *(t for t in whole.trials if t.block >= 4)])
    for some_record, blocks in ((record, 8), (build_record([*record.trials, *others]), 12)):
        accuracy = accuracy_of(some_record)
        assert (accuracy.verdict, accuracy.diverged, accuracy.baseline_diverged) == expected
        assert accuracy.difference.n == blocks
        assert (accuracy.reason is None) == (accuracy.verdict != "inconclusive")
    retried = build_record([*whole.trials, build_training(0, XLA, NAN)])
    assert accuracy_of(retried).diverged == 0, "it completed in the end"


def test_variants_with_batch_sizes_are_compared_by_the_time_per_sample() -> None:
    one, two = (Arm("torch/fused", CPU, Variant(f"{n}", {"batch_size": n})) for n in (32, 64))
    trials = [
        *build_timed_trials({one: 2.0}, 6, sample_us=62.5),
        *build_timed_trials({two: 3.0}, 6, sample_us=46.875),
    ]
    comparison = only(build_record(trials, (one, two)))
    assert comparison.metric == "sample_us"
    assert speedup(comparison) == pytest.approx(4 / 3)


def test_of_unlike_work_only_the_steps_are_compared() -> None:
    """SHORT seems best because it does less."""
    metrics = {
        FAST: {"train_s": 60.0, "val_accuracy": 0.90, "step_ms": 1.0},
        SHORT: {"train_s": 2.0, "val_accuracy": 0.95, "step_ms": 20.0},
    }
    trials = [
        build_trial(block, arm, metrics=metrics[arm]) for block in range(7) for arm in metrics
    ]
    objectives = {"val_accuracy": "maximize", "train_s": "minimize"}
    record = build_record(trials, tuple(metrics), objectives=objectives)
    by_step = only(record)
    assert speedup(by_step) == pytest.approx(1 / 20)
    assert (by_step.verdict, by_step.result) == ("slower", None)
    without_steps = [change_trial(t, metrics={"train_s": t.metrics["train_s"]}) for t in trials]
    by_time = only(build_record(without_steps, tuple(metrics)))
    assert (by_time.verdict, by_time.speedup) == ("inconclusive", None)
    for baseline, other in ((FAST, SHORT), (SHORT, FAST)):
        front = summarise(record, str(baseline)).front
        assert {point.arm for point in front.points} == {baseline}
        assert front.apart == (other,)
    xla = Arm("tensorflow/portable+xla", SHORT.hardware)
    assert (
        accuracy_of(
            build_record(build_timed_trials({SHORT: 10.0, xla: 10.0}), (SHORT, xla))
        ).verdict
        == "equal"
    )


def test_timing_and_full_training_are_compared_by_time_per_step_only() -> None:
    trials = build_timed_trials({PORTABLE: 10.0}, 7, train_s=100.0) + build_timed_trials(
        {TIMED: 5.0}, 7
    )
    comparison = only(build_record(trials, (PORTABLE, TIMED)))
    assert (comparison.measures, comparison.result) == (("timing", "full"), None)
    assert speedup(comparison) == pytest.approx(2.0)
    without_steps = [
        change_trial(t, metrics={"train_s": 10.0, "val_accuracy": 0.9}) for t in trials
    ]
    assert only(build_record(without_steps, (PORTABLE, TIMED))).pairs == ()
