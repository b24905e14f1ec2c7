"""The number of CPUs that a process may use: one answer for placement, thread pools and records.

Standard library only, so that every process can use it.
"""

from __future__ import annotations

import os
from pathlib import Path

from workloads.cgroups import read_limits


def usable_cpus(root: Path = Path("/")) -> int:
    """Return how many CPUs this process may use: its affinity, limited by the cgroup's quota.

    Args:
        root: folder that contains `proc` and `sys`, where the quota is read.
    """
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = read_limits(root).cpus
    return available if quota is None else max(1, min(available, int(quota)))
