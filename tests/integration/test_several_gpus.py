"""One CPU arm and two GPUs (simulated NVML): which trials may run at the same time."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import pytest

from tests.integration.sweeping import Home, Json
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]


def overlap(one: Json, other: Json) -> bool:
    """Return True if two outcomes ran at the same time."""
    return bool(one["started_s"] < other["ended_s"] and other["started_s"] < one["ended_s"])


def test_gpus_work_at_once_and_the_cpu_arm_alone(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = home.spec(
        "gpus",
        workload="tests.workloads.examples.hostile:usable_cpus",
        settings={"seconds": 0.5},
        configs=4,
        implementations=["python/one"],
        hardware=["cpu", "gpu"],
    )
    gpus = SimulatedNvml([SimulatedGpu(), SimulatedGpu()])
    for name, value in gpus.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    try:
        home.run("run", spec).expect(0)
    finally:
        os.sched_setaffinity(0, before)
    outcomes: dict[str, list[Json]] = {"cpu": [], "gpu": []}
    for record in home.finished("gpus"):
        device = record["trial"]["arm"]["hardware"]["hardware_class"]["device"]
        outcomes[device].append(record["outcome"])
    cpu, gpu = outcomes.values()
    assert (len(cpu), len(gpu)) == (4, 4)
    for of_device, seen in ((cpu, (2.0, 0.0)), (gpu, (1.0, 1.0))):
        for outcome in of_device:
            metrics = outcome["metrics"]
            assert (metrics["usable_cpus"], metrics["sees_gpus"]) == seen
            assert metrics["niceness"] == os.nice(0), "no trial has a lower priority"
    assert {outcome["environment"]["neighbours_at_most"] for outcome in gpu} == {1}
    concurrent = [pair for pair in combinations(gpu, 2) if overlap(*pair)]
    assert concurrent, "both GPUs work at once"
    for one, other in concurrent:
        assert one["metrics"]["first_cpu"] != other["metrics"]["first_cpu"]
        assert one["environment"]["trainer_cpus"] != other["environment"]["trainer_cpus"]
    for alone in cpu:
        assert "neighbours_at_most" not in alone["environment"]
        assert sum(overlap(alone, other) for other in (*cpu, *gpu)) == 1, "itself only"
