"""Processes that never outlive the one that started them: trainers and the recorder."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the one that started it ends, however it ends.

    Linux does so as soon as the *thread* that started it ends. That thread must therefore live as
    long as this process. On other systems the end of standard input has to do.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(f"parent {parent} is gone (now {os.getppid()}); nothing to do")


def bind_trainer_to_parent(parent: int) -> None:
    """Tie a trainer to its parent, and leave its signals to it.

    Ctrl-C at a terminal reaches the whole foreground group. The parent decides what it means, so
    it is ignored here. Under memory pressure the kernel should end a trainer, and not a Ray worker.
    """
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
