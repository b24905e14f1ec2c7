"""A trainer never outlives the process that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def bind_to_parent(parent: int) -> None:
    """Tie this process to its parent, and leave its signals to it.

    Linux kills this process as soon as the *thread* that started it ends, so that thread must
    live as long as the trainer. Elsewhere the end of standard input has to do. Ctrl-C at a
    terminal reaches the whole foreground group; the parent decides what it means, so it is
    ignored here. Under memory pressure the kernel should end a trainer, and not a Ray worker.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(
            f"python -m workloads: parent {parent} is gone (now {os.getppid()}); nothing to do"
        )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
