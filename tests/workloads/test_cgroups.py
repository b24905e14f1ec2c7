"""Limits of containers, jobs and services, read from small trees of `/proc` and `/sys`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from workloads.cgroups import CgroupLimits, read_limits

V1_NONE = "9223372036854771712\n"


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, CgroupLimits(), id="no cgroups"),
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
                "sys/fs/cgroup/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/memory.max": "8589934592\n",
            },
            CgroupLimits(1.5, 8192, 2),
            id="container of version 2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
                "sys/fs/cgroup/cpu.max": "max 100000\n",
                "sys/fs/cgroup/memory.max": "max\n",
            },
            CgroupLimits(None, None, 2),
            id="version 2 without limits",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/system.slice/job.service/part\n",
                "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
                "sys/fs/cgroup/system.slice/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/system.slice/job.service/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/system.slice/job.service/memory.max": "4294967296\n",
                "sys/fs/cgroup/system.slice/job.service/part/cpu.max": "400000 100000\n",
                "sys/fs/cgroup/system.slice/job.service/part/memory.max": "max\n",
            },
            CgroupLimits(2.0, 4096, 2),
            id="the tightest of groups within groups",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            },
            CgroupLimits(2.5, 2048, 1),
            id="container of version 1, which sees its group as the root",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/jobs/7\n2:cpu:/jobs/7\n0::/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": V1_NONE,
                "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes": "1073741824\n",
                "sys/fs/cgroup/unified/cgroup.controllers": "\n",
            },
            CgroupLimits(None, 1024, 1),
            id="version 1 with an empty version 2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "nonsense\n0::/../../elsewhere\n",
                "sys/fs/cgroup/cgroup.controllers": "cpu\n",
                "sys/fs/cgroup/cpu.max": "many 0\n",
            },
            CgroupLimits(None, None, 2),
            id="unreadable values limit nothing",
        ),
    ],
)
def test_limits(tmp_path: Path, files: Mapping[str, str], expected: CgroupLimits) -> None:
    assert read_limits(tree(tmp_path, files)) == expected


def test_the_limits_of_this_process_can_be_read() -> None:
    limits = read_limits()
    assert limits.cpus is None or limits.cpus > 0
    assert limits.memory_mib is None or limits.memory_mib > 100
