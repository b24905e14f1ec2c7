"""Test arms with less work: their steps are compared, their accuracies are not."""

from __future__ import annotations

import pytest

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_records import sweep, trial

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
    shown = " ".join(render(summary, "text").split())
    assert f"because of their different mathematics or amount of work: {SHORT}." in shown
