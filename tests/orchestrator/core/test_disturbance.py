"""Causes of disturbance: detected from the node, never from a trial's own times."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from orchestrator.core.criteria import DisturbanceLimits
from orchestrator.core.disturbance import detect_disturbance, disturbance_text, load_pct
from orchestrator.core.trial import Telemetry


def test_every_cause_has_its_figure() -> None:
    metrics = {
        "others_cpu_pct": 43.2,
        "steal_pct": 6.0,
        "throttled_pct": 20.0,
        "clock_drop_pct": 25.4,
    }
    telemetry = Telemetry(throttle_reasons={"hw_thermal_slowdown": 20.0}, other_gpu_processes=2)
    disturbance = detect_disturbance(metrics, telemetry, DisturbanceLimits())
    assert disturbance == {
        "other_processes": 43.2,
        "host_steal": 6.0,
        "throttling": 20.0,
        "low_clocks": 25.4,
        "shared_gpu": 2,
    }
    assert len((disturbance_text(disturbance) or "").split("; ")) == len(disturbance)
    assert disturbance_text({}) is None


class Measurement(NamedTuple):
    """What was measured of a trial, limits, and the number of causes."""

    name: str
    causes: int
    metrics: Mapping[str, float] = {}
    telemetry: Mapping[str, Any] = {}
    limits: Mapping[str, float] = {}


MEASUREMENTS = [
    Measurement(
        name="all within the limits",
        metrics={"others_cpu_pct": 9.9, "steal_pct": 5.0, "clock_drop_pct": 9.9, "step_ms": 1e6},
        telemetry={"other_gpu_processes": 0},
        causes=0,
    ),
    Measurement(
        name="all within wider limits",
        metrics={"others_cpu_pct": 43.2, "steal_pct": 8.0},
        limits={"others_cpu_pct": 50, "steal_pct": 10},
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
]


@pytest.mark.parametrize("case", MEASUREMENTS, ids=lambda case: case.name)
def test_what_exceeds_a_limit_is_disturbed(case: Measurement) -> None:
    telemetry, limits = Telemetry(**case.telemetry), DisturbanceLimits(**case.limits)
    causes = detect_disturbance(case.metrics, telemetry, limits)
    assert len(causes) == case.causes, causes


@pytest.mark.parametrize(
    ("disturbance", "load"),
    [
        ({"other_processes": 40.0}, 40.0),
        ({"other_processes": 40.0, "host_steal": 7.0}, 47.0),
        ({"other_processes": 97.0, "host_steal": 7.0}, 100.0),
        ({}, None),
        ({"shared_gpu": 2.0}, None),
        ({"other_processes": 40.0, "throttling": 30.0}, None),
    ],
)
def test_a_load_is_known_if_nothing_else_disturbed_the_trial(
    disturbance: Mapping[str, float], load: float | None
) -> None:
    assert load_pct(disturbance) == load
