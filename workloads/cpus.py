"""How many CPUs a process may keep busy: one answer for placement, thread pools and records.

Standard library only, so that every process can ask.
"""

from __future__ import annotations

import os
from pathlib import Path

from workloads.cgroups import read_limits


def usable_cpus(root: Path = Path("/")) -> int:
    """CPUs that this process may keep busy: its affinity, cut by the cgroup's quota.

    Args:
        root: the folder that holds `proc` and `sys`, where the quota is read.
    """
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = read_limits(root).cpus
    return available if quota is None else max(1, min(available, int(quota)))
