"""Limits of containers, jobs and services, and the CPUs that follow from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import hardware
from workloads import resources
from workloads.resources import CgroupLimits, read_limits

CASES = yaml.safe_load(Path(__file__).with_name("cgroups.yaml").read_text())


def tree(root: Path, group: str, files: Mapping[str, str]) -> Path:
    paths = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": group, **paths}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("case", CASES)
def test_limits(tmp_path: Path, case: dict[str, Any]) -> None:
    root = tree(tmp_path, case["group"], case["files"])
    assert read_limits(root) == CgroupLimits(*case["limits"])


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_cgroup_quota_limits_the_cpus(tmp_path: Path, quota: str, expected: int | None) -> None:
    everything = resources.usable_cpus(tmp_path / "absent")
    files = {"cgroup.controllers": "cpuset cpu io memory pids\n", "cpu.max": quota}
    root = tree(tmp_path, "0::/\n", files)
    assert resources.usable_cpus(root) == (expected or everything)
    assert hardware.probe().cpus == resources.usable_cpus(), "placement counts the same CPUs"
