"""Who may record into a sweep: an owner, and the heartbeat that says it is alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

LEASE_S = 60.0
BEAT_S = 15.0

OWNER_TAG = "lease_owner"
UNTIL_TAG = "lease_until"
_NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Owner:
    """A driver process, told from all others of all times.

    Args:
        host: the machine's name, for people.
        pid: the process.
        started_s: when it started: process ids are used again.
        machine: one boot and one process namespace, since two containers (or two machines) of
            one name must not judge each other's processes by their ids.
    """

    host: str
    pid: int
    started_s: float
    machine: str

    @classmethod
    def here(cls, pid: int | None = None) -> Owner:
        """The owner that this process (or `pid`) is."""
        process = psutil.Process(pid)
        return cls(
            socket.gethostname(), process.pid, round(process.create_time(), 1), _this_machine()
        )

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """The owner that `str(owner)` names; None where the text is none."""
        try:
            host, pid, started, machine = text.rsplit(":", 3)
            return cls(host, int(pid), float(started), machine)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started_s}:{self.machine}"

    def is_gone(self) -> bool:
        """Whether the process has surely ended; False where that cannot be told from here."""
        if self.machine != _this_machine():
            return False
        try:
            process = psutil.Process(self.pid)
            # The clock may have been set since: 2 s apart is still the same start.
            same = abs(process.create_time() - self.started_s) < 2
            return not same or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


def holder(tags: Mapping[str, str], me: Owner, now_s: float) -> tuple[str, float] | None:
    """Another owner that holds the lease in `tags`, and until when; None if it can be taken."""
    text = tags.get(OWNER_TAG, "")
    owner = Owner.parse(text)
    until_s = float(tags.get(UNTIL_TAG) or 0)
    if not text or text == str(me) or until_s <= now_s or (owner and owner.is_gone()):
        return None
    return (f"process {owner.pid} on {owner.host}" if owner else text), until_s


def claim(me: Owner, now_s: float) -> dict[str, str]:
    """The tags of a lease that begins now."""
    return {OWNER_TAG: str(me), UNTIL_TAG: f"{now_s + LEASE_S:.1f}"}


def released() -> dict[str, str]:
    """The tags of a lease that nobody holds."""
    return {OWNER_TAG: _NOBODY, UNTIL_TAG: "0"}


def _this_machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116  (a magic link)
    except OSError:
        return socket.gethostname().replace(":", "_")
