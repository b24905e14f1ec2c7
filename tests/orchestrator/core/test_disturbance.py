"""Causes of disturbance: detected from the node, never from a trial's own times."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.disturbance import CanaryBaseline, detect_disturbance, disturbance_text
from orchestrator.core.trial import FinishedTrial, Telemetry
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_records import trial

LIMITS = DisturbanceLimits()


def finished(
    canary_ms: float | None, node: str = "one", implementation: str = "torch/fused"
) -> FinishedTrial:
    arm = Arm(implementation, on_cpu())
    gpu_ms = canary_ms and canary_ms / 10
    return trial(arm, 0, node=node, metrics={"canary_ms": canary_ms, "canary_gpu_ms": gpu_ms})


def test_every_cause_has_its_figure() -> None:
    metrics = {
        "others_cpu_pct": 43.2,
        "steal_pct": 6.0,
        "throttled_pct": 20.0,
        "clock_drop_pct": 25.4,
        "canary_ms": 26.2,
        "canary_gpu_ms": 1.0,
    }
    telemetry = Telemetry(throttle_reasons={"hw_thermal_slowdown": 20.0}, other_gpu_processes=2)
    disturbance = detect_disturbance(
        metrics, telemetry, LIMITS, {"canary_ms": 20.0, "canary_gpu_ms": 0.2}
    )
    assert disturbance == {
        "other_processes": 43.2,
        "host_steal": 6.0,
        "throttling": 20.0,
        "low_clocks": 25.4,
        "slow_canary": pytest.approx(1.31),
        "slow_gpu": pytest.approx(5.0),
        "shared_gpu": 2,
    }
    assert len((disturbance_text(disturbance) or "").split("; ")) == len(disturbance)
    assert disturbance_text({}) is None


CASES = yaml.safe_load(Path(__file__).with_name("disturbances.yaml").read_text())


@pytest.mark.parametrize(("metrics", "telemetry", "limits", "expected_ms", "causes"), CASES)
def test_what_exceeds_a_limit_is_disturbed(
    metrics: dict[str, float],
    telemetry: dict[str, Any],
    limits: dict[str, float],
    expected_ms: dict[str, float],
    causes: int,
) -> None:
    own = Telemetry(**telemetry), DisturbanceLimits(**limits)
    assert len(detect_disturbance(metrics, *own, expected_ms)) == causes


def test_the_expected_canary_time_is_the_upper_quartile_of_a_place() -> None:
    baseline = CanaryBaseline().learn([finished(ms) for ms in (20.0, 21.0, 90.0, 22.0, 19.0, 20.0)])
    baseline.learn([finished(18.0), finished(None)])
    assert CanaryBaseline().learn([finished(20.0)] * 4).expected_ms(finished(None)) == {}
    expected = {"canary_ms": 22.0, "canary_gpu_ms": 2.2}
    assert baseline.expected_ms(finished(None)) == pytest.approx(expected)
    assert baseline.expected_ms(finished(None, node="two")) == {}
    assert baseline.expected_ms(finished(None, implementation="tensorflow/portable")) == {}
    assert baseline.expected_ms(finished(None, implementation="torch/portable"))


def test_a_node_that_became_slower_for_good_is_normal_after_a_while() -> None:
    baseline = CanaryBaseline().learn([finished(20.0)] * 40 + [finished(30.0)] * 60)
    assert baseline.expected_ms(finished(None))["canary_ms"] == 30.0
