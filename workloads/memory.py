"""The peak memory of this process, as the kernel counts it."""

from __future__ import annotations

import contextlib
from pathlib import Path

_KIB_PER_MIB = 1024


def reset_peak() -> None:
    """Reset the peak, if the kernel lets a process do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_rss_mib() -> float | None:
    """Return the peak memory of the process since `reset_peak`; None if the kernel has no count.

    Memory that the process held before is included: compare peaks of fresh processes only.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / _KIB_PER_MIB
    return None
