"""Test arms with different mathematics or less work: no verdicts, and no best config."""

from __future__ import annotations

import pytest

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import summarise
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_records import CPU, PORTABLE, RELU, XLA, sweep, trial


def mixed_sweep(arms: tuple[Arm, ...] = (PORTABLE, XLA, RELU), blocks: int = 7) -> SweepRecord:
    """Return a sweep with XLA 1.25 × as fast as PORTABLE, and RELU twice as fast."""
    step_ms = {PORTABLE: 10.0, XLA: 8.0, RELU: 5.0}
    accuracy = {PORTABLE: 0.9, XLA: 0.9, RELU: 0.95}
    trials = [
        trial(arm, block, step_ms=step_ms[arm] * (1 + block), val_accuracy=accuracy[arm])
        for block in range(blocks)
        for arm in arms
    ]
    return sweep(trials, arms)


def test_an_arm_with_different_mathematics_has_a_ratio_and_no_verdict() -> None:
    summary = summarise(mixed_sweep())
    assert [comparison.arm for comparison in summary.comparisons] == [XLA]
    (contrast,) = summary.different_mathematics
    assert (contrast.arm, contrast.baseline) == (RELU, PORTABLE)
    assert contrast.mathematics == "activation relu"
    assert contrast.time_ratio is not None and contrast.time_ratio.value == pytest.approx(2)
    assert contrast.accuracy_difference is not None


def test_the_best_configs_are_those_of_arms_with_the_same_mathematics() -> None:
    summary = summarise(mixed_sweep())
    assert {point.arm for point in summary.front.points} == {XLA}
    assert summary.front.tried == 14
    assert summary.front.apart == (RELU,)


def test_the_baseline_determines_which_mathematics_is_different() -> None:
    summary = summarise(mixed_sweep(), baseline="tensorflow/portable+relu")
    assert [contrast.arm for contrast in summary.different_mathematics] == [PORTABLE, XLA]
    assert {point.arm for point in summary.front.points} == {RELU}
    assert summary.front.apart == (PORTABLE, XLA)


def test_the_implementation_names_of_a_user_imply_no_mathematics() -> None:
    own = [Arm("numpy/loop", CPU), Arm("numpy/loop+relu", CPU)]
    trials = [trial(arm, block) for arm in own for block in range(7)]
    summary = summarise(sweep(trials, own))
    assert summary.different_mathematics == ()
    assert len(summary.comparisons) == 1


FAST = Arm("tensorflow/portable", on_gpu("NVIDIA H200", "AMD EPYC", 2))
SHORT = Arm("tensorflow/portable", on_cpu(usage=Usage(settings={"epochs": 1})))


def unlike(*, steps: bool = True) -> SweepRecord:
    """Return a sweep: SHORT takes 20 × FAST's step, and seems best because it does less."""
    trials = []
    for block in range(7):
        size = 1 + block
        times = {"step_ms": size} if steps else {"step_ms": None}
        trials.append(trial(FAST, block, train_s=60.0 * size, val_accuracy=0.90, **times))
        times = {"step_ms": 20 * size} if steps else {"step_ms": None}
        trials.append(trial(SHORT, block, train_s=2.0 * size, val_accuracy=0.95, **times))
    objectives = {"val_accuracy": "maximize", "train_s": "minimize"}
    return sweep(trials, (FAST, SHORT), objectives=objectives)


def test_steps_are_compared_and_accuracies_are_not() -> None:
    (by_step,) = summarise(unlike()).comparisons
    assert by_step.speedup is not None and by_step.speedup.value == pytest.approx(1 / 20)
    assert (by_step.verdict, by_step.accuracy) == ("slower", None)
    (by_time,) = summarise(unlike(steps=False)).comparisons  # seconds of unlike work are no speed
    assert (by_time.verdict, by_time.speedup) == ("inconclusive", None)
    xla = Arm("tensorflow/portable+xla", SHORT.hardware)
    trials = [trial(arm, block) for block in range(7) for arm in (SHORT, xla)]
    (alike,) = summarise(sweep(trials, (SHORT, xla))).comparisons
    assert alike.accuracy is not None


def test_the_best_configs_are_of_arms_with_the_baselines_work() -> None:
    summary = summarise(unlike())
    assert {point.arm for point in summary.front.points} == {FAST}
    assert summary.front.apart == (SHORT,)
    other = summarise(unlike(), str(SHORT))
    assert {point.arm for point in other.front.points} == {SHORT}
