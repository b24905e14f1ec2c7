"""Limits of containers, jobs and services, and the CPUs that follow from them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator import hardware
from tests.workloads.shared_trainer import expect_package
from workloads import resources
from workloads.implementations import BACKENDS, parse_implementation
from workloads.process import environment_for
from workloads.resources import CgroupLimits, read_limits


def tree(root: Path, group: str, files: Mapping[str, str]) -> Path:
    """Write `proc/self/cgroup`, and files in `sys/fs/cgroup`."""
    paths = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in {"proc/self/cgroup": group, **paths}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def version_2(**limits: str) -> dict[str, str]:
    names = {name.replace("_", "."): text for name, text in limits.items()}
    return {"cgroup.controllers": "cpuset cpu io memory pids\n", **names}


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("", {}, CgroupLimits()),
        (
            "0::/\n",
            version_2(cpu_max="150000 100000\n", memory_max="8589934592\n"),
            CgroupLimits(1.5, 8192, 2),
        ),
        (
            "0::/\n",
            version_2(cpu_max="max 100000\n", memory_max="max\n"),
            CgroupLimits(None, None, 2),
        ),
        (
            "0::/system.slice/job.service/part\n",  # the tightest of groups within groups
            {
                **version_2(),
                "system.slice/cpu.max": "800000 100000\n",
                "system.slice/job.service/cpu.max": "200000 100000\n",
                "system.slice/job.service/memory.max": "4294967296\n",
                "system.slice/job.service/part/cpu.max": "400000 100000\n",
                "system.slice/job.service/part/memory.max": "max\n",
            },
            CgroupLimits(2.0, 4096, 2),
        ),
        (
            "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",  # it sees its group as the root
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
                "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "2147483648\n",
            },
            CgroupLimits(2.5, 2048, 1),
        ),
        (
            "4:memory:/jobs/7\n2:cpu:/jobs/7\n0::/\n",  # with an empty version 2
            {
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/jobs/7/memory.limit_in_bytes": "1073741824\n",
                "unified/cgroup.controllers": "\n",
            },
            CgroupLimits(None, 1024, 1),
        ),
        ("nonsense\n0::/../../x\n", version_2(cpu_max="many 0\n"), CgroupLimits(None, None, 2)),
    ],
)
def test_limits(
    tmp_path: Path, group: str, files: Mapping[str, str], expected: CgroupLimits
) -> None:
    assert read_limits(tree(tmp_path, group, files)) == expected


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_a_cgroup_quota_limits_the_cpus(tmp_path: Path, quota: str, expected: int | None) -> None:
    everything = resources.usable_cpus(tmp_path / "absent")
    root = tree(tmp_path, "0::/\n", version_2(cpu_max=quota))
    assert resources.usable_cpus(root) == (expected or everything)
    assert hardware.probe().cpus == resources.usable_cpus(), "placement counts the same CPUs"


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trainer_has_as_many_threads_as_the_quota_allows(backend: str, tmp_path: Path) -> None:
    expect_package(backend)
    code = (
        "import pathlib, sys; from workloads import resources;"
        "resources.usable_cpus.__defaults__ = (pathlib.Path(sys.argv[1]),);"
        "from workloads import frameworks, implementations;"
        "framework = frameworks.load_framework(sys.argv[2]);"
        "parse = implementations.parse_implementation;"
        "framework.configure(parse(f'{sys.argv[2]}/portable'), 'cpu');"
        "print(framework.facts()['usable_cpus'], framework.facts()['intra_op_threads'])"
    )
    root = tree(tmp_path, "0::/\n", version_2(cpu_max="100000 100000"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(root), backend],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment_for(parse_implementation(f"{backend}/portable"), "cpu")},
    )
    assert done.stdout.split() == ["1", "1"]
