"""Test that arms with different mathematics are labelled, and never get a verdict."""

from __future__ import annotations

import csv
import json
from io import StringIO

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


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_report_does_not_compare_different_mathematics(form: str) -> None:
    text = " ".join(render(summarise(mixed_sweep()), form).replace("\\", "").split())  # type: ignore[arg-type]
    assert (
        f"tensorflow/portable+relu and tensorflow/portable on {CPU} are not compared ({LABEL})"
    ) in text
    assert "+relu is 2" not in text and "+relu is faster" not in text
    assert "Different mathematics: activation relu" in text
    assert "These arms compute something else than tensorflow/portable." in text
    assert "not comparable: tensorflow/portable+relu (activation relu)" in text
    assert "Not ranked, because of their different mathematics: tensorflow/portable+relu." in text


def test_json_and_csv_separate_different_mathematics_from_comparisons() -> None:
    content = json.loads(render(summarise(mixed_sweep()), "json"))
    assert [comparison["arm"]["implementation"] for comparison in content["comparisons"]] == [
        XLA.implementation
    ]
    (contrast,) = content["different_mathematics"]
    assert list(contrast) == [
        "arm", "baseline", "mathematics", "metric", "pairs", "time_ratio", "accuracy_difference",
    ]  # fmt: skip
    assert {arm["arm"]["implementation"]: arm["mathematics"] for arm in content["arms"]} == {
        PORTABLE.implementation: "",
        XLA.implementation: "",
        RELU.implementation: "activation relu",
    }
    rows = csv.DictReader(StringIO(render(summarise(mixed_sweep()), "csv")))
    assert {(row["implementation"], row["mathematics"]) for row in rows} == {
        (PORTABLE.implementation, ""),
        (XLA.implementation, ""),
        (RELU.implementation, "activation relu"),
    }


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


def test_a_sweep_without_comparable_arms_reports_ratios() -> None:
    record = mixed_sweep((PORTABLE, RELU))
    gap = [trial(PORTABLE, 7), trial(RELU, 7, status="failed", failure="error: broke")]
    text = render(summarise(sweep([*record.trials, *gap], (PORTABLE, RELU))), "text")
    assert "no second arm" not in text
    assert "Speed-up over" not in text
    assert "7 of 8 blocks complete on every arm" in text
    assert "2.000 × (2.000–2.000)" in text
    lonely = " ".join(render(summarise(mixed_sweep((PORTABLE, RELU), blocks=1)), "text").split())
    assert LABEL in lonely and "ratio of times" in lonely


def test_the_implementation_names_of_a_user_imply_no_mathematics() -> None:
    own = [Arm("numpy/loop", CPU), Arm("numpy/loop+relu", CPU)]
    trials = [trial(arm, block) for arm in own for block in range(7)]
    summary = summarise(sweep(trials, own))
    assert summary.different_mathematics == ()
    assert len(summary.comparisons) == 1
