"""A trainer at work, guarded: against its limits, and against whatever ends its process."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil

from orchestrator.core.trial import FailureReason
from orchestrator.execution.cpu_claims import CpusTaken
from orchestrator.execution.job import TrialLimits
from orchestrator.execution.trainer_process import Trainer, TrainerGone
from workloads.protocol import Event, Failure, ProtocolError, Result

_WATCH_S = 0.1
"""How often a silent trainer is looked at."""

_NODE_MEMORY_LIMIT = 0.93
"""The used share of a node's memory at which the trainer is ended, below the 0.95 at which
Ray's memory monitor would kill the actor, and with it the sweep."""

_FAMILY_S = 10.0
"""How often a trainer's descendants are looked for: that takes milliseconds of a core."""


class TrialFailed(Exception):
    """Ends the watching of a trial; becomes the outcome's failure."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


FAILURES = (TrialFailed, ProtocolError, TrainerGone, OSError, CpusTaken)
"""What ends a trial and leaves its trainer in doubt; `why` says what it is."""


class Watchdog:
    """Reads one trainer's events, and looks at its limits meanwhile.

    `limits.trial_s` counts while the trainer is awake: one that waits for its turn does not hang,
    and takes no time.
    """

    def __init__(self, trainer: Trainer, limits: TrialLimits) -> None:
        self.trainer, self._limits = trainer, limits
        self._spent_s = 0.0
        self._began = self._active = self._looked = self._counted = time.monotonic()
        self._cpu_s, self._family_mib = trainer.family()

    def wake(self) -> None:
        """The trainer has been asked for something."""
        now = time.monotonic()
        self._began = self._active = now

    def rest(self) -> None:
        """It has answered, and waits."""
        self._spent_s += time.monotonic() - self._began

    def next_event(self) -> Event | None:
        """The trainer's next event; None where a moment brought none.

        Raises:
            TrialFailed: a limit was exceeded.
            TrainerGone: the process ended.
            ProtocolError: it wrote something else than events.
        """
        event = self.trainer.next_event(_WATCH_S)
        now = time.monotonic()
        if event is not None:
            self._active = now
        if now - self._looked >= _WATCH_S and not isinstance(event, Result | Failure):
            self._look(now)
        return event

    def _look(self, now: float) -> None:
        self._looked = now
        limits = self._limits
        if now - self._counted > min(_FAMILY_S, limits.idle_s / 10):
            self._counted = now
            used_s, self._family_mib = self.trainer.family()
            if used_s - self._cpu_s > 0.01 * (now - self._active) + 0.01:
                self._active = now
            self._cpu_s = max(self._cpu_s, used_s)
        _check_memory(max(self.trainer.memory_mib(), self._family_mib), limits)
        if self._spent_s + now - self._began > limits.trial_s:
            raise TrialFailed(
                "time_limit",
                f"took longer than limits.trial_s allows ({limits.trial_s:g} s)",
            )
        if now - self._active > limits.idle_s:
            raise TrialFailed(
                "hung",
                f"neither an event nor CPU time for {limits.idle_s:g} s (limits.idle_s)",
            )


def why(error: BaseException, oom_kills_before: int | None) -> tuple[FailureReason, str]:
    """What one of `FAILURES` is; `oom_kills_before` as `oom_kills` told when the trial began."""
    match error:
        case TrialFailed():
            return error.reason, str(error)
        case ProtocolError():
            return "protocol", f"a line that is no event of the protocol: {error}"
        case TrainerGone():
            if error.returncode == -signal.SIGKILL and oom_kills() != oom_kills_before:
                return (
                    "out_of_memory",
                    f"{error}: the kernel's out-of-memory killer was at work",
                )
            return "crash", str(error)
    return "crash", f"the trainer process could not be started: {error}"


def memory_share(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """The used share of the memory that this process may use: the node's, or the cgroup's.

    As Ray's memory monitor counts it: a cgroup's inactive page cache is not in use.
    """
    share = psutil.virtual_memory().percent / 100
    try:
        limit = int((cgroup / "memory.max").read_text())
        current = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return max(share, (current - int(stat["inactive_file"])) / limit)
    except (OSError, ValueError, KeyError):  # no cgroup v2 here, or "max": no limit
        return share


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """How many processes the kernel's out-of-memory killer has ended since the node started."""
    try:
        counters = dict(line.split() for line in vmstat.read_text().splitlines())
        return int(counters["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None


def _check_memory(held_mib: float, limits: TrialLimits) -> None:
    if limits.memory_mib is not None and held_mib > limits.memory_mib:
        raise TrialFailed(
            "out_of_memory",
            f"the trainer held {held_mib:.0f} MiB; limits.memory_mib allows {limits.memory_mib}",
        )
    if memory_share() > _NODE_MEMORY_LIMIT:
        raise TrialFailed(
            "out_of_memory",
            f"the node's memory was {_NODE_MEMORY_LIMIT:.0%} full; "
            f"the trainer held {held_mib:.0f} MiB",
        )
