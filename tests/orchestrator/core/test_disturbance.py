"""Causes of disturbance: detected from the node, never from a trial's own times."""

from __future__ import annotations

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.disturbance import (
    CanaryBaseline,
    detect_disturbance,
    disturbance_text,
)
from orchestrator.core.trial import FinishedTrial, Telemetry
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_records import trial

LIMITS = DisturbanceLimits()


def finished(
    canary_ms: float | None, node: str = "one", implementation: str = "torch/fused"
) -> FinishedTrial:
    arm = Arm(implementation, on_cpu())
    return trial(arm, 0, node=node, metrics={"canary_ms": canary_ms})


def test_every_cause_has_its_figure() -> None:
    metrics = {
        "others_cpu_pct": 43.2,
        "steal_pct": 6.0,
        "throttled_pct": 20.0,
        "clock_drop_pct": 25.4,
        "canary_ms": 26.2,
    }
    telemetry = Telemetry(throttle_reasons={"hw_thermal_slowdown": 20.0}, other_gpu_processes=2)
    disturbance = detect_disturbance(metrics, telemetry, LIMITS, 20.0)
    assert disturbance == {
        "other_processes": 43.2,
        "host_steal": 6.0,
        "throttling": 20.0,
        "low_clocks": 25.4,
        "slow_canary": pytest.approx(1.31),
        "shared_gpu": 2,
    }
    assert len((disturbance_text(disturbance) or "").split("; ")) == len(disturbance)
    assert disturbance_text({}) is None


NORMAL = {"others_cpu_pct": 9.9, "steal_pct": 5.0, "canary_ms": 22.9, "step_ms": 1e6}
BUSY = DisturbanceLimits(others_cpu_pct=50, canary=1.5)
CAPPED, HOT = {"sw_power_cap": 80.0}, {"sw_power_cap": 80.0, "sw_thermal_slowdown": 10.0}


@pytest.mark.parametrize(
    ("metrics", "telemetry", "limits", "expected_ms", "causes"),
    [
        (NORMAL, Telemetry(other_gpu_processes=0), LIMITS, 20.0, 0),
        ({}, Telemetry(), LIMITS, None, 0),
        ({"canary_ms": 1e6}, Telemetry(), LIMITS, None, 0),
        ({"others_cpu_pct": 43.2, "canary_ms": 26.0}, Telemetry(), BUSY, 20.0, 0),
        ({"others_cpu_pct": 2.0}, Telemetry(other_trainers=3), LIMITS, None, 0),
        ({"throttled_pct": 80.0}, Telemetry(throttle_reasons=CAPPED), LIMITS, None, 0),
        ({"throttled_pct": 80.0}, Telemetry(throttle_reasons=HOT), LIMITS, None, 1),
        ({"throttled_pct": 80.0}, Telemetry(), LIMITS, None, 1),
        ({"train_s": 9.0, "others_cpu_pct": 15.1}, Telemetry(), LIMITS, None, 1),
        ({"train_s": 0.25, "others_cpu_pct": 59.9}, Telemetry(), LIMITS, None, 0),
        ({"train_s": 0.25, "others_cpu_pct": 60.1}, Telemetry(), LIMITS, None, 1),  # wider
        ({"train_s": 0.25, "clock_drop_pct": 10.1}, Telemetry(), LIMITS, None, 1),
        ({"timed_s": 0.5, "train_s": 9.0, "others_cpu_pct": 29.9}, Telemetry(), LIMITS, None, 0),
        ({"timed_s": 0.5, "train_s": 9.0, "others_cpu_pct": 30.1}, Telemetry(), LIMITS, None, 1),
    ],
)
def test_what_exceeds_a_limit_is_disturbed(
    metrics: dict[str, float],
    telemetry: Telemetry,
    limits: DisturbanceLimits,
    expected_ms: float | None,
    causes: int,
) -> None:
    assert len(detect_disturbance(metrics, telemetry, limits, expected_ms)) == causes


def test_the_expected_canary_time_is_the_upper_quartile_of_a_place() -> None:
    baseline = CanaryBaseline().learn([finished(ms) for ms in (20.0, 21.0, 90.0, 22.0, 19.0, 20.0)])
    baseline.add(finished(18.0))
    baseline.add(finished(None))
    assert CanaryBaseline().learn([finished(20.0)] * 4).expected_ms(finished(None)) is None
    assert baseline.expected_ms(finished(None)) == 22.0
    assert baseline.expected_ms(finished(None, node="two")) is None
    assert baseline.expected_ms(finished(None, implementation="tensorflow/portable")) is None
    assert baseline.expected_ms(finished(None, implementation="torch/portable")) == 22.0


def test_a_node_that_became_slower_for_good_is_normal_after_a_while() -> None:
    baseline = CanaryBaseline().learn([finished(20.0)] * 40 + [finished(30.0)] * 60)
    assert baseline.expected_ms(finished(None)) == 30.0
