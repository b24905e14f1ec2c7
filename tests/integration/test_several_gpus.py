"""One CPU arm and two GPUs (simulated NVML): which trials may run at the same time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.integration.sweeping import Home
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml

NAME = "gpus"
SPACE = {"units": {"low": 1, "high": 1000}}

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


def overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two outcomes ran at the same time."""
    return bool(one["started_s"] < other["ended_s"] and other["started_s"] < one["ended_s"])


def test_gpus_work_at_once_and_the_cpu_arm_alone(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    spec = home.spec(
        NAME,
        workload="tests.workloads.examples.neighbours:run",
        settings={"seconds": 0.5},
        search={"sampler": "random", "configs": 4, "space": SPACE},
        arms={"implementations": ["python/one"], "hardware": ["cpu", "gpu"]},
    )
    gpus = SimulatedNvml([SimulatedGpu(), SimulatedGpu()])
    for name, value in gpus.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        home.run("run", spec).expect(0)
    finally:
        os.sched_setaffinity(0, before)
    outcomes: dict[str, list[dict[str, Any]]] = {"cpu": [], "gpu": []}
    for record in home.finished(NAME):
        device = record["trial"]["arm"]["hardware"]["hardware_class"]["device"]
        outcomes[device].append(record["outcome"])
    assert [len(of_device) for of_device in outcomes.values()] == [4, 4]

    all_outcomes = [*outcomes["cpu"], *outcomes["gpu"]]
    assert {outcome["metrics"]["niceness"] for outcome in all_outcomes} == {os.nice(0)}, (
        "no trial has a lower priority"
    )

    assert {outcome["metrics"]["cpus"] for outcome in outcomes["cpu"]} == {2.0}
    assert {outcome["metrics"]["sees_gpus"] for outcome in outcomes["cpu"]} == {0.0}
    assert {outcome["metrics"]["cpus"] for outcome in outcomes["gpu"]} == {1.0}
    assert {outcome["metrics"]["sees_gpus"] for outcome in outcomes["gpu"]} == {1.0}

    assert {outcome["environment"]["neighbours_at_most"] for outcome in outcomes["gpu"]} == {1}
    assert all("neighbours_at_most" not in outcome["environment"] for outcome in outcomes["cpu"])
    concurrent = [pair for pair in combinations(outcomes["gpu"], 2) if overlap(*pair)]
    assert concurrent, "both GPUs work at once"
    for one, other in concurrent:
        assert one["metrics"]["first_cpu"] != other["metrics"]["first_cpu"]
        assert one["environment"]["trainer_cpus"] != other["environment"]["trainer_cpus"]
    for exclusive in outcomes["cpu"]:
        others = [outcome for outcome in all_outcomes if outcome is not exclusive]
        assert not any(overlap(exclusive, other) for other in others), "a CPU arm has its node"
