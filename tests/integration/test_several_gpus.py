"""A machine of one CPU arm and two GPUs (which a stand-in for NVML tells of): who has what when."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.integration.sweeping import Home
from tests.nvml.pretended import Pretended, PretendedGpu

NAME = "gpus"
SPACE = {"units": {"low": 1, "high": 1000}}

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


def overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two outcomes were at work at the same time."""
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
    gpus = Pretended([PretendedGpu(), PretendedGpu()])
    for name, value in gpus.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        home.run("run", spec).expect(0)
    finally:
        os.sched_setaffinity(0, before)
    outcomes: dict[str, list[dict[str, Any]]] = {"cpu": [], "gpu": []}
    for each in home.finished(NAME):
        hardware = each["trial"]["arm"]["hardware"]
        outcomes["gpu" if hardware.startswith("NVIDIA") else "cpu"].append(each["outcome"])
    assert [len(found) for found in outcomes.values()] == [4, 4]

    everyone = [*outcomes["cpu"], *outcomes["gpu"]]
    assert {each["metrics"]["niceness"] for each in everyone} == {os.nice(0)}, "none gives way"

    assert {each["metrics"]["cpus"] for each in outcomes["cpu"]} == {2.0}
    assert {each["metrics"]["sees_gpus"] for each in outcomes["cpu"]} == {0.0}
    assert {each["metrics"]["cpus"] for each in outcomes["gpu"]} == {1.0}
    assert {each["metrics"]["sees_gpus"] for each in outcomes["gpu"]} == {1.0}

    assert {each["environment"]["neighbours_at_most"] for each in outcomes["gpu"]} == {1}
    assert all("neighbours_at_most" not in each["environment"] for each in outcomes["cpu"])
    beside = [pair for pair in combinations(outcomes["gpu"], 2) if overlap(*pair)]
    assert beside, "both GPUs are at work at once"
    for one, other in beside:
        assert one["metrics"]["first_cpu"] != other["metrics"]["first_cpu"]
        assert one["environment"]["trainer_cpus"] != other["environment"]["trainer_cpus"]
    for alone in outcomes["cpu"]:
        others = [each for found in outcomes.values() for each in found if each is not alone]
        assert not any(overlap(alone, each) for each in others), "a CPU arm has its whole node"
