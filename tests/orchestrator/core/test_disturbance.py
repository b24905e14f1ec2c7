"""Causes of disturbance: detected from the node, never from a trial's own times."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.disturbance import (
    CanaryBaseline,
    detect_disturbance,
    disturbance_text,
    load_pct,
)
from orchestrator.core.trial import FinishedTrial, Telemetry
from tests.building.hardware import build_cpu_use
from tests.building.trials import build_trial

LIMITS = DisturbanceLimits()


def finished(
    canary_ms: float | None, node: str = "one", implementation: str = "torch/fused"
) -> FinishedTrial:
    arm = Arm(implementation, build_cpu_use())
    gpu_ms = canary_ms and canary_ms / 10
    return build_trial(0, arm, node=node, metrics={"canary_ms": canary_ms, "canary_gpu_ms": gpu_ms})


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


class Measurement(NamedTuple):
    """What was measured of a trial, limits and expected probes (ms), and the number of causes."""

    name: str
    causes: int
    metrics: Mapping[str, float] = {}
    telemetry: Mapping[str, Any] = {}
    limits: Mapping[str, float] = {}
    expected_ms: Mapping[str, float] = {}


MEASUREMENTS = [
    Measurement(
        name="all within the limits",
        metrics={"others_cpu_pct": 9.9, "steal_pct": 5.0, "canary_ms": 22.9, "step_ms": 1000000.0},
        telemetry={"other_gpu_processes": 0},
        expected_ms={"canary_ms": 20.0},
        causes=0,
    ),
    Measurement(
        name="a canary without an expected time", metrics={"canary_ms": 1000000.0}, causes=0
    ),
    Measurement(
        name="all within wider limits",
        metrics={"others_cpu_pct": 43.2, "canary_ms": 26.0},
        limits={"others_cpu_pct": 50, "canary": 1.5},
        expected_ms={"canary_ms": 20.0},
        causes=0,
    ),
    Measurement(
        name="other trainers",
        metrics={"others_cpu_pct": 2.0},
        telemetry={"other_trainers": 3},
        causes=0,
    ),
    Measurement(
        name="throttled by the power cap alone",
        metrics={"throttled_pct": 80.0},
        telemetry={"throttle_reasons": {"sw_power_cap": 80.0}},
        causes=0,
    ),
    Measurement(
        name="throttled by the power cap and by heat",
        metrics={"throttled_pct": 80.0},
        telemetry={"throttle_reasons": {"sw_power_cap": 80.0, "sw_thermal_slowdown": 10.0}},
        causes=1,
    ),
    Measurement(name="throttled for unknown reasons", metrics={"throttled_pct": 80.0}, causes=1),
    Measurement(
        name="other processes for a short time",
        metrics={"train_s": 0.25, "others_cpu_pct": 15.1},
        causes=1,
    ),
    Measurement(
        name="a trial too short to observe", metrics={"train_s": 0.05, "timed_s": 0.01}, causes=0
    ),
    Measurement(
        name="a slow GPU canary",
        metrics={"canary_ms": 21.0, "canary_gpu_ms": 0.9},
        expected_ms={"canary_ms": 20.0, "canary_gpu_ms": 0.2},
        causes=1,
    ),
]


@pytest.mark.parametrize("case", MEASUREMENTS, ids=lambda case: case.name)
def test_what_exceeds_a_limit_is_disturbed(case: Measurement) -> None:
    telemetry, limits = Telemetry(**case.telemetry), DisturbanceLimits(**case.limits)
    causes = detect_disturbance(case.metrics, telemetry, limits, case.expected_ms)
    assert len(causes) == case.causes, causes


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


@pytest.mark.parametrize(
    ("disturbance", "load"),
    [
        ({"other_processes": 40.0}, 40.0),
        ({"other_processes": 40.0, "host_steal": 7.0, "slow_canary": 1.5}, 47.0),
        ({"other_processes": 97.0, "host_steal": 7.0}, 100.0),
        ({"slow_canary": 1.5}, None),
        ({"other_processes": 40.0, "throttling": 30.0}, None),
    ],
)
def test_a_load_is_known_if_nothing_else_disturbed_the_trial(
    disturbance: Mapping[str, float], load: float | None
) -> None:
    assert load_pct(disturbance) == load
