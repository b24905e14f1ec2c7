"""How many CPUs a process may keep busy: one answer for placement, thread pools and records.

Standard library only, so that every process can ask.
"""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(cgroup: Path = _CGROUP) -> int:
    """CPUs that this process may keep busy: its affinity, cut by the cgroup's quota."""
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = cgroup.read_text().split()
        return max(1, min(available, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no quota
        return available
