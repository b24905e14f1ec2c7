"""Limits of containers, jobs and services, and the CPUs that follow from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from orchestrator import hardware
from workloads import resources
from workloads.resources import CgroupLimits, read_limits


def tree(root: Path, group: str, files: Mapping[str, str]) -> Path:
    paths = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": group, **paths}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class CgroupFiles(NamedTuple):
    """The group of a process, the files below /sys/fs/cgroup, and the limits that follow."""

    name: str
    group: str
    files: Mapping[str, str]
    limits: CgroupLimits


CGROUPS = [
    CgroupFiles(name="no cgroup", group="", files={}, limits=CgroupLimits(None, None, None)),
    CgroupFiles(
        name="the tightest of groups within groups",
        group="0::/system.slice/job.service/part\n",
        files={
            "cgroup.controllers": "cpuset cpu io memory pids\n",
            "system.slice/cpu.max": "800000 100000\n",
            "system.slice/job.service/cpu.max": "200000 100000\n",
            "system.slice/job.service/memory.max": "4294967296\n",
            "system.slice/job.service/part/cpu.max": "400000 100000\n",
            "system.slice/job.service/part/memory.max": "max\n",
        },
        limits=CgroupLimits(2.0, 4096, 2),
    ),
    CgroupFiles(
        name="version 1 in a container",
        group="4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
        files={
            "cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "2147483648\n",
        },
        limits=CgroupLimits(2.5, 2048, 1),
    ),
    CgroupFiles(
        name="version 1 with an empty version 2",
        group="4:memory:/jobs/7\n2:cpu:/jobs/7\n0::/\n",
        files={
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/jobs/7/memory.limit_in_bytes": "1073741824\n",
            "unified/cgroup.controllers": "\n",
        },
        limits=CgroupLimits(None, 1024, 1),
    ),
    CgroupFiles(
        name="files without a meaning",
        group="nonsense\n0::/../../x\n",
        files={"cgroup.controllers": "cpuset cpu io memory pids\n", "cpu.max": "many 0\n"},
        limits=CgroupLimits(None, None, 2),
    ),
]


@pytest.mark.parametrize("case", CGROUPS, ids=lambda case: case.name)
def test_a_process_has_the_limits_of_its_cgroups(tmp_path: Path, case: CgroupFiles) -> None:
    assert read_limits(tree(tmp_path, case.group, case.files)) == case.limits


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_cgroup_quota_limits_the_cpus(tmp_path: Path, quota: str, expected: int | None) -> None:
    everything = resources.usable_cpus(tmp_path / "absent")
    files = {"cgroup.controllers": "cpuset cpu io memory pids\n", "cpu.max": quota}
    root = tree(tmp_path, "0::/\n", files)
    assert resources.usable_cpus(root) == (expected or everything)
    assert hardware.probe().cpus == resources.usable_cpus(), "placement counts the same CPUs"
