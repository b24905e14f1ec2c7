"""Trainer processes before their first trial: the environment of a backend, and their end.

Keras fixes its backend, and CUDA its devices, on import: a trainer process therefore has one
backend and one device for life.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import NoReturn

import psutil

from workloads.backends.registry import backends
from workloads.failures import BadRequest
from workloads.implementations import Implementation
from workloads.protocol import Device

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals at which the reaper ends its trainer."""


def environment_for(implementation: Implementation, device: Device) -> dict[str, str]:
    """Return the environment variables of a trainer process for this backend and device."""
    # A framework would use any GPU that it sees: a CPU trial hides all, a GPU trial keeps its own.
    variables = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # CUDA alone puts the fastest first; telemetry does not
    }
    if device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
    for backend in backends().values():  # a user's own workload may import any of them
        variables |= backend.environment(device)
    own_backend = backends().get(implementation.backend)
    if own_backend is not None:
        variables |= {**own_backend.environment(device), "KERAS_BACKEND": own_backend.name}
    return variables


class BackendClaim:
    """The backend and device of this process, fixed by its first trial."""

    def __init__(self) -> None:
        self._claimed: tuple[str, Device] | None = None

    def claim(self, implementation: Implementation, device: Device) -> None:
        """Set the process up for its first trial; `BadRequest` if that was of another kind."""
        claim = (implementation.backend, device)
        if self._claimed is None:
            os.environ.update(environment_for(implementation, device))
            os.environ.pop("NVIDIA_TF32_OVERRIDE", None)  # it overrules what an arm asks for
            self._claimed = claim
        elif self._claimed != claim:
            raise BadRequest(
                f"this trainer process runs only {self._claimed[0]} on {self._claimed[1]}: start"
                f" another process for {claim[0]} on {claim[1]}"
            )


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Let the kernel send a signal to this process when the one that started it ends."""
    # Linux sends it when the *thread* that started this process ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(f"parent {parent} is gone (now {os.getppid()}); nothing to do")


def bind_trainer_to_parent(parent: int) -> None:
    """Tie a trainer and all its descendants to its parent, which decides about Ctrl-C.

    It returns in a forked child, the trainer. This process remains as its reaper: it adopts the
    trainer's orphans, even daemons. When the trainer or the parent ends, or at SIGTERM, it kills
    all that is left, and ends as the trainer did. If the reaper is killed, the trainer dies, and
    processes that the trainer has started may live on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    die_with_parent(parent, signal.SIGTERM)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    reaper = os.getpid()
    if trainer := os.fork():
        _reap(trainer)
    os.setpgid(0, 0)  # what a trial sends to its process group does not reach the reaper
    die_with_parent(reaper)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with contextlib.suppress(OSError):  # the kernel's out-of-memory killer takes the trainer first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _reap(trainer: int) -> NoReturn:
    """Wait for the trainer or for a signal to end; kill all descendants; end as the trainer did."""
    # Signals stay blocked, and are waited for: the kernel sends the parent's death once for each
    # thread of the parent, so another signal comes while this process is at work.
    with Path(os.devnull).open("r+b") as nothing:  # the pipes are the trainer's alone
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    pid, status, must_end = 0, int(signal.SIGKILL), False
    while pid != trainer and not must_end:
        must_end = signal.sigwait({signal.SIGCHLD, *_ENDINGS}) in _ENDINGS
        while pid != trainer and (ended := os.waitpid(-1, os.WNOHANG))[0]:  # one signal for several
            pid, status = ended
    with contextlib.suppress(ChildProcessError):  # none is left
        while True:
            for process in psutil.Process().children():
                with contextlib.suppress(psutil.Error):
                    process.kill()  # its own children become ours
            os.waitpid(-1, 0)
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if (ended_by := os.WTERMSIG(status)) != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ended_by})
    os._exit(os.waitstatus_to_exitcode(status))
