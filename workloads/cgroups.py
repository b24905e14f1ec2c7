"""CPU and memory limits from the control group of this process (its container, job or service).

Standard library only, so that every process can use it. Reads cgroups of versions 1 and 2. A
nested group has the tightest limit of all groups around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ROOT = Path("/")
_MIB = 2**20
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


def read_limits(root: Path = _ROOT) -> CgroupLimits:
    """Return the limits of this process.

    Args:
        root: folder that contains `proc` and `sys`.
    """
    mounts = root / "sys/fs/cgroup"
    paths = _paths(root / "proc/self/cgroup")
    if (mounts / "cgroup.controllers").exists():
        groups = list(_groups(mounts, paths.get("", "/")))
        quotas = [_quota(_words(group / "cpu.max")) for group in groups]
        memories = [_number(_words(group / "memory.max")) for group in groups]
        return CgroupLimits(_least(quotas), _mib(_least(memories)), 2)
    cpu, memory = _version_1(mounts, "cpu", paths), _version_1(mounts, "memory", paths)
    if not cpu and not memory:
        return CgroupLimits()
    quotas = [
        _quota([*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")])
        for group in cpu
    ]
    memories = [_number(_words(group / "memory.limit_in_bytes")) for group in memory]
    return CgroupLimits(_least(quotas), _mib(_least(memories)), 1)


def _paths(file: Path) -> dict[str, str]:
    """Return the path of the process's group by controller; version 2 has the controller ""."""
    paths: dict[str, str] = {}
    try:
        lines = file.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return paths
    for line in lines:
        _, names, path = [*line.split(":", 2), "", ""][:3]
        for name in {names, *names.split(",")}:
            paths[name] = path
    return paths


def _version_1(mounts: Path, controller: str, paths: dict[str, str]) -> list[Path]:
    """Return the process's groups of a controller, which is mounted alone or with others."""
    shared_mounts = [name for name in paths if controller in name.split(",")]
    for name in (controller, *shared_mounts):
        if (mounts / name).is_dir():
            return list(_groups(mounts / name, paths.get(controller, "/")))
    return []


def _groups(mount: Path, path: str) -> Iterator[Path]:
    """Yield a group and the groups around it, as far as this process can see them.

    A container may see its own group as the root of the mount, whatever its path outside is.
    """
    yield mount
    group = mount
    for part in Path(path.lstrip("/")).parts:
        group = group / part
        if part == ".." or not group.is_dir():
            return
        yield group


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").split()
    except OSError:
        return []


def _quota(words: list[str]) -> float | None:
    """Return CPUs: 1.5 for `150000 100000`, None for `max 100000` and `-1 100000`."""
    try:
        quota, period = map(int, words)
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _number(words: list[str]) -> float | None:
    """Return a limit in bytes; None for `max` and for the number that means "no limit"."""
    try:
        (limit,) = map(int, words)
    except ValueError:
        return None
    return limit if 0 < limit < _NO_LIMIT_BYTES else None


def _least(limits: list[float | None]) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _mib(limit: float | None) -> int | None:
    return None if limit is None else int(limit) // _MIB
