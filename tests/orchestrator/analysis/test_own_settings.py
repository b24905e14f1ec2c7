"""Test arms with less work: their steps are compared, their accuracies are not."""

from __future__ import annotations

import pytest

from orchestrator.core.arms import Arm, Usage
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_hardware import on_cpu, on_gpu
from tests.orchestrator.sample_records import PORTABLE, sweep, trial

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
    (comparison,) = summarise(unlike()).comparisons
    assert comparison.speedup is not None
    assert comparison.speedup.value == pytest.approx(1 / 20)
    assert comparison.verdict == "slower"
    assert comparison.accuracy is None


def test_seconds_of_unlike_work_are_no_speed() -> None:
    (comparison,) = summarise(unlike(steps=False)).comparisons
    assert comparison.speedup is None
    assert comparison.verdict == "inconclusive"


def test_the_best_configs_are_of_arms_with_the_baselines_work() -> None:
    summary = summarise(unlike())
    assert {point.arm for point in summary.front.points} == {FAST}
    assert summary.front.apart == (SHORT,)
    other = summarise(unlike(), str(SHORT))
    assert {point.arm for point in other.front.points} == {SHORT}


def test_people_read_which_arms_did_less() -> None:
    text = " ".join(render(summarise(unlike()), "text").split())
    assert (
        "Measured with another amount of work, as in their names: compare only their times per "
        f"step and per sample with other arms: {SHORT}."
    ) in text
    assert f"because of their different mathematics or amount of work: {SHORT}." in text


def test_two_arms_with_the_same_work_are_compared_whole() -> None:
    xla = Arm("tensorflow/portable+xla", SHORT.hardware)
    trials = [trial(arm, block) for block in range(7) for arm in (SHORT, xla)]
    (comparison,) = summarise(sweep(trials, (SHORT, xla))).comparisons
    assert comparison.accuracy is not None
    assert PORTABLE.hardware != SHORT.hardware
