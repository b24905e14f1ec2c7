"""The lease of a sweep: the one driver that may record into it, and the heartbeat of that one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.storage.tracking.errors import WrongVersion

LEASE_S = 60.0
BEAT_S = 15.0

OWNER_TAG = "lease_owner"
UNTIL_TAG = "lease_until"
VERSION_TAG = "lease_version"
_VERSION = 1
_NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Owner:
    """A driver process, distinct from all others of all times.

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
        """Return this process (or `pid`) as an owner."""
        process = psutil.Process(pid)
        return cls(
            socket.gethostname(), process.pid, round(process.create_time(), 1), _this_machine()
        )

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Return the owner of `str(owner)`; None where the text is not one."""
        try:
            host, pid, started, machine = text.rsplit(":", 3)
            return cls(host, int(pid), float(started), machine)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started_s}:{self.machine}"

    def is_gone(self) -> bool:
        """Return whether the process has surely ended; False where it cannot be seen from here."""
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


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a parent run: its owner as text, and its end in seconds since the epoch."""

    owner: str
    until_s: float

    def is_held(self, now_s: float) -> bool:
        """Return whether the owner may be alive and the lease has not ended."""
        owner = Owner.parse(self.owner)
        return self.until_s > now_s and not (owner is not None and owner.is_gone())

    @property
    def holder(self) -> str:
        """The owner, for people."""
        owner = Owner.parse(self.owner)
        return f"process {owner.pid} on {owner.host}" if owner else self.owner


def read_lease(tags: Mapping[str, str], place: str) -> Lease | None:
    """Return the lease in the tags of a parent run; None where it was never claimed.

    Args:
        tags: the run's tags.
        place: the address of the run, for messages.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
    """
    if OWNER_TAG not in tags:
        return None
    version = tags.get(VERSION_TAG)
    if version != str(_VERSION):
        raise WrongVersion(f"tag {VERSION_TAG} of {place}", "a lease", _VERSION, version)
    return Lease(tags[OWNER_TAG], float(tags.get(UNTIL_TAG) or 0))


def claim(owner: Owner, now_s: float) -> dict[str, str]:
    """Return the tags of a lease that begins now."""
    return _tags(str(owner), f"{now_s + LEASE_S:.1f}")


def released() -> dict[str, str]:
    """Return the tags of a lease that nobody holds."""
    return _tags(_NOBODY, "0")


def _tags(owner: str, until: str) -> dict[str, str]:
    return {OWNER_TAG: owner, UNTIL_TAG: until, VERSION_TAG: str(_VERSION)}


def _this_machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116  (a magic link)
    except OSError:
        return socket.gethostname().replace(":", "_")
