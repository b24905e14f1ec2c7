"""A watchdog of a working trainer, for its limits and for whatever ends its process."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from orchestrator.core.trial import FailureReason
from orchestrator.execution.job import TrialLimits
from orchestrator.execution.telemetry import TelemetrySampler
from orchestrator.execution.trainer_process import TrainerGone, TrainerProcess
from workloads.protocol import Event, ProtocolError, TrialEnding

_WATCH_S = 0.1
"""How often a silent trainer is checked."""

_NODE_MEMORY_LIMIT = 0.93
"""The used share of a node's memory at which the trainer is ended, below the 0.95 at which
Ray's memory monitor would kill the actor, and with it the sweep."""

_FAMILY_S = 10.0
"""How often a trainer's descendants are searched for: that takes milliseconds of a core."""


class TrialFailed(Exception):
    """A trial that exceeded a limit; it becomes the outcome's failure."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


FAILURES = (TrialFailed, ProtocolError, TrainerGone, OSError)
"""Errors that end a trial, and its trainer too: nobody knows its state. See `failure_of`."""


class Watchdog:
    """A reader of one trainer's events that enforces its limits while the trainer is awake."""

    def __init__(
        self, trainer: TrainerProcess, limits: TrialLimits, sampler: TelemetrySampler | None = None
    ):
        self.trainer, self.sampler, self._limits = trainer, sampler, limits
        self._spent_s = 0.0
        self._began = self._active = self._looked = self._counted = time.monotonic()
        self._cpu_s, self._family_mib = trainer.family()

    def wake(self) -> None:
        """Start the clock: the trainer has received a command."""
        now = time.monotonic()
        self._began = self._active = now

    def rest(self) -> None:
        """Stop the clock: the trainer has answered, and waits."""
        self._spent_s += time.monotonic() - self._began

    def events(self) -> Iterator[Event]:
        """Yield events up to the end; raise `TrialFailed` at a limit, or as `next_event`."""
        event = None
        while not isinstance(event, TrialEnding):
            event = self.trainer.next_event(_WATCH_S)
            now = time.monotonic()
            if event is not None:
                self._active = now
            if now - self._looked >= _WATCH_S and not isinstance(event, TrialEnding):
                self._expect_within_limits(now)
            if event is not None:
                yield event

    def _expect_within_limits(self, now: float) -> None:
        """Raise `TrialFailed` at a lost GPU, too much memory or time, or a silent, idle trainer."""
        self._looked = now
        self.trainer.limit_output()
        limits = self._limits
        if self.sampler is not None and self.sampler.lost_gpu is not None:
            raise TrialFailed("lost", self.sampler.lost_gpu)
        if now - self._counted > min(_FAMILY_S, limits.idle_s / 10):
            self._counted = now
            used_s, self._family_mib = self.trainer.family()
            if used_s - self._cpu_s > 0.01 * (now - self._active) + 0.01:
                self._active = now
            self._cpu_s = max(self._cpu_s, used_s)
        used_mib = max(self.trainer.memory_mib(), self._family_mib)
        if limits.memory_mib is not None and used_mib > limits.memory_mib:
            message = f"the trainer used {used_mib:.0f} MiB, more than limits.memory_mib"
            raise TrialFailed("out_of_memory", f"{message} ({limits.memory_mib})")
        if memory_share() > _NODE_MEMORY_LIMIT:
            message = f"the node's memory was {_NODE_MEMORY_LIMIT:.0%} full"
            raise TrialFailed("out_of_memory", f"{message}; the trainer used {used_mib:.0f} MiB")
        if self._spent_s + now - self._began > limits.trial_s:
            message = f"took longer than limits.trial_s ({limits.trial_s:g} s)"
            raise TrialFailed("time_limit", message)
        if now - self._active > limits.idle_s:
            message = f"no progress and no CPU use for {limits.idle_s:g} s (limits.idle_s)"
            raise TrialFailed("hung", message)


def failure_of(error: BaseException, oom_kills_before: int | None) -> tuple[FailureReason, str]:
    """Return reason and message of one of `FAILURES`, given `oom_kills` when the trial began."""
    match error:
        case TrialFailed():
            return error.reason, str(error)
        case ProtocolError():
            return "protocol", f"the trainer wrote a line that is not an event: {error}"
        case TrainerGone():
            if error.returncode == -signal.SIGKILL and oom_kills() != oom_kills_before:
                return "out_of_memory", f"{error}, by the kernel's out-of-memory killer"
            return "crash", str(error)
    return "crash", f"the trainer process could not be started: {error}"


def memory_share(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the used share of this process's memory: the node's, or its cgroup's."""
    # As Ray's memory monitor counts it, a cgroup's inactive page cache is not in use.
    share = psutil.virtual_memory().percent / 100
    try:
        limit = int((cgroup / "memory.max").read_text())
        current = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        return max(share, (current - int(stat["inactive_file"])) / limit)
    except (OSError, ValueError, KeyError):  # no cgroup v2 here, or "max": no limit
        return share


def oom_kills() -> int | None:
    """Return how many processes the kernel's out-of-memory killer has ended on this node."""
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counters["oom_kill"])
    except (OSError, ValueError, KeyError):
        return None
