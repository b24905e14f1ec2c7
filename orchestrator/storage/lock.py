"""A lock on a folder, which the kernel releases at the end of the process, and its owner."""

import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import psutil
from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from orchestrator.core.errors import Refusal
from orchestrator.storage.private_files import open_private

LOCK_FILE = "lock"
_TRIES, _PAUSE_S = 6, 0.02


@dataclass(frozen=True, slots=True)
class Owner:
    """A driver process, distinct from all others of all times: process ids are used again.

    `host` is for people. `machine` is one boot and one process namespace, since two containers (or
    two machines) of one name must not judge each other's processes by their ids.
    """

    host: str
    pid: Annotated[int, Ge(0)]
    started_s: float
    machine: str

    @classmethod
    def here(cls, pid: int | None = None) -> Self:
        """Return this process (or `pid`) as an owner."""
        process = psutil.Process(pid)
        started_s = round(process.create_time(), 1)
        return cls(socket.gethostname(), process.pid, started_s, _this_machine())

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"

    def is_of_user(self, uid: int) -> bool:
        """Return whether the process may be of a user; True where it has ended or is elsewhere."""
        if self.machine != _this_machine():
            return True
        try:
            return psutil.Process(self.pid).uids().effective == uid
        except psutil.Error:
            return True

    def is_gone(self) -> bool:
        """Return whether the process has surely ended; False where it cannot be seen from here."""
        if self.machine != _this_machine():
            return False
        try:
            process = psutil.Process(self.pid)
            # The clock may have been set since: 2 s apart is still the same start.
            is_same_start = abs(process.create_time() - self.started_s) < 2
            return not is_same_start or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


_OWNER: TypeAdapter[Owner] = TypeAdapter(Owner)
_UNKNOWN = Owner("an unknown host", 0, 0.0, "")


class Locked(Refusal):
    """A lock that another process holds."""

    def __init__(self, folder: Path, holder: Owner) -> None:
        super().__init__(
            f"{folder.name} is already running ({holder}). "
            f"Follow it: rnnsweep status {folder.name}. Stop it: rnnsweep stop {folder.name}"
        )


def take_lock(folder: Path) -> int:
    """Take the lock of a folder, made if need be, until the descriptor is closed; else `Locked`."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = open_private(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    for tries_left in reversed(range(_TRIES)):  # `holder` takes it for a moment
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not tries_left:
                held_by = _read_owner(descriptor)
                os.close(descriptor)
                raise Locked(folder, held_by) from None
            time.sleep(_PAUSE_S)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, _OWNER.dump_json(Owner.here()), 0)
    return descriptor


def write_owner(path: Path, owner: Owner) -> None:
    """Write an owner to a file, or raise `OSError`."""
    path.write_bytes(_OWNER.dump_json(owner))


def parse_owner(content: bytes) -> Owner | None:
    """Return the owner in a file's content; None if that is not whole."""
    try:
        return _OWNER.validate_json(content)
    except ValidationError:
        return None


def _read_owner(lock: int) -> Owner:
    """Return the owner in an open lock; an unknown one if it is not written yet, or is forged.

    Another user who makes a lock may name any process in it, for `rnnsweep stop` to end.
    """
    owner = parse_owner(os.pread(lock, 1000, 0))
    return owner if owner is not None and owner.is_of_user(os.fstat(lock).st_uid) else _UNKNOWN


def holder(folder: Path) -> Owner | None:
    """Return the holder of the lock of a folder; None if nobody holds it."""
    try:
        # Anyone's sweep may be looked at, but a named pipe in its place must not be waited for.
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # none, or no folder of that name can be
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_owner(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _this_machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116  (a magic link)
    except OSError:
        return socket.gethostname()
