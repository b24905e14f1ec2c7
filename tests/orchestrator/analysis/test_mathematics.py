"""Test that arms with different mathematics are labelled, and never get a verdict."""

from __future__ import annotations

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, PORTABLE, RELU, XLA, sweep, trial

LABEL = "different mathematics: activation relu"


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
    assert not hasattr(contrast, "verdict")


def test_the_best_configs_are_those_of_arms_with_the_same_mathematics() -> None:
    summary = summarise(mixed_sweep())
    assert {point.arm for point in summary.front.points} == {XLA}
    assert summary.front.tried == 14
    assert summary.front.apart == (RELU,)
    bullets = render(summary, "text").partition("\nSweep\n")[0]
    assert "Pareto-best" in bullets and "+relu" not in bullets.partition("Pareto-best")[2]


def test_the_baseline_determines_which_mathematics_is_different() -> None:
    summary = summarise(mixed_sweep(), baseline="tensorflow/portable+relu")
    assert [contrast.arm for contrast in summary.different_mathematics] == [PORTABLE, XLA]
    assert {point.arm for point in summary.front.points} == {RELU}
    assert summary.front.apart == (PORTABLE, XLA)


def test_people_read_that_different_mathematics_are_not_compared() -> None:
    shown = " ".join(render(summarise(mixed_sweep()), "text").split())
    assert f"are not compared ({LABEL})" in shown
    assert "+relu is 2" not in shown and "+relu is faster" not in shown
    alone = render(summarise(mixed_sweep((PORTABLE, RELU))), "text")
    assert "Speed-up over" not in alone
    assert "2.000 × (2.000–2.000)" in alone


def test_the_implementation_names_of_a_user_imply_no_mathematics() -> None:
    own = [Arm("numpy/loop", CPU), Arm("numpy/loop+relu", CPU)]
    trials = [trial(arm, block) for arm in own for block in range(7)]
    summary = summarise(sweep(trials, own))
    assert summary.different_mathematics == ()
    assert len(summary.comparisons) == 1
