"""The CPUs and the memory that this process may use, and the memory that it did use.

Limits come from the process's control group (its container, job or service), of version 1 or 2; of
nested groups the tightest counts. Standard library only.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_MIB = 2**20
_KIB_PER_MIB = 1024
_NO_LIMIT_BYTES = 2**60
"""Version 1 writes "no limit" as the largest number of whole pages."""


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """Limits of a control group; None for a resource without a limit.

    `cpus` is CPU time per second (1.5 is one CPU and half of another), `memory_mib` is in MiB.
    `version` is the cgroup version that was read; None on a system without cgroups.
    """

    cpus: float | None = None
    memory_mib: int | None = None
    version: Literal[1, 2] | None = None


def read_limits(root: Path = Path("/")) -> CgroupLimits:
    """Return the limits of this process; `root` is the folder that contains `proc` and `sys`."""
    mounts, paths = root / "sys/fs/cgroup", _paths(root / "proc/self/cgroup")
    if (mounts / "cgroup.controllers").exists():
        version: Literal[1, 2] = 2
        cpu = memory = list(_groups(mounts, paths.get("", "/")))
    else:
        version = 1
        cpu, memory = (_version_1(mounts, name, paths) for name in ("cpu", "memory"))
        if not cpu and not memory:
            return CgroupLimits()
    cpu_files = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    memory_file = "memory.max" if version == 2 else "memory.limit_in_bytes"
    quotas = [_numbers(*(group / name for name in cpu_files)) for group in cpu]
    limits = [_numbers(group / memory_file) for group in memory]
    cpus = [q[0] / q[1] for q in quotas if len(q) == 2 and q[0] > 0 and q[1] > 0]
    sizes = [limit[0] // _MIB for limit in limits if len(limit) == 1 and limit[0] < _NO_LIMIT_BYTES]
    return CgroupLimits(min(cpus, default=None), min(sizes, default=None), version)


def usable_cpus(root: Path = Path("/")) -> int:
    """Return how many CPUs this process may use: its affinity, limited by the cgroup's quota."""
    available = len(os.sched_getaffinity(0))
    quota = read_limits(root).cpus
    return available if quota is None else max(1, min(available, int(quota)))


def reset_peak() -> None:
    """Reset the peak of this process's memory, if the kernel lets a process do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_rss_mib() -> float | None:
    """Return the peak memory since `reset_peak`, with what was held before; None: no count."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / _KIB_PER_MIB
    return None


def _paths(file: Path) -> dict[str, str]:
    """Return the path of the process's group by controller; version 2 has the controller ""."""
    paths: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in file.read_text(errors="surrogateescape").splitlines():
            _, _, names_and_path = line.partition(":")
            names, _, path = names_and_path.partition(":")
            paths |= dict.fromkeys([names, *names.split(",")], path)
    return paths


def _version_1(mounts: Path, controller: str, paths: dict[str, str]) -> list[Path]:
    """Return the process's groups of a controller, which is mounted alone or with others."""
    for name in (controller, *(name for name in paths if controller in name.split(","))):
        if (mounts / name).is_dir():
            return list(_groups(mounts / name, paths.get(controller, "/")))
    return []


def _groups(mount: Path, path: str) -> Iterator[Path]:
    """Yield a group and the groups around it, as far as this process can see them."""
    # A container may see its own group as the root of the mount, whatever its path outside is.
    yield mount
    group = mount
    for part in Path(path.lstrip("/")).parts:
        group = group / part
        if part == ".." or not group.is_dir():
            return
        yield group


def _numbers(*files: Path) -> list[int]:
    """Return the numbers in files; none for a word such as `max`, or if one is unreadable."""
    try:
        return [int(word) for file in files for word in file.read_text("ascii").split()]
    except (OSError, ValueError):
        return []
