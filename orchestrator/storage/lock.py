"""A lock on a folder, which the kernel releases at the end of the process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.errors import Refusal

FILE_NAME = "lock"
_TRIES, _PAUSE_S = 5, 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock; None for what is not known of it."""

    pid: int | None = None
    host: str | None = None

    def __str__(self) -> str:
        return "another process" if self.pid is None else f"pid {self.pid} on {self.host}"


_HOLDER: TypeAdapter[Holder] = TypeAdapter(Holder)


class Locked(Refusal):
    """A lock that another process holds."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        super().__init__(
            f"{folder}: expected no other driver of this sweep, but {holder} is running it. "
            "Follow it with `rnnsweep status`, or stop it first"
        )
        self.holder = holder


def take(folder: Path) -> int:
    """Take the lock of a folder, which is made if need be, until the descriptor is closed.

    Raises:
        Locked: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(descriptor)
    except BlockingIOError:
        held_by = _read(descriptor)
        os.close(descriptor)
        raise Locked(folder, held_by) from None
    os.ftruncate(descriptor, 0)
    this_process = Holder(os.getpid(), socket.gethostname())
    os.pwrite(descriptor, json.dumps(asdict(this_process)).encode(), 0)
    return descriptor


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder while the context lasts.

    Raises:
        Locked: another process holds it.
    """
    descriptor = take(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def holder(folder: Path) -> Holder | None:
    """Return the holder of the lock of a folder; None if nobody holds it."""
    try:
        descriptor = os.open(folder / FILE_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Take the lock; retry, because `holder` takes it for a moment."""
    for _ in range(_TRIES):
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
    return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _read(descriptor: int) -> Holder:
    try:
        return _HOLDER.validate_json(os.pread(descriptor, 1000, 0))
    except ValidationError:  # it has not written its name yet
        return Holder()
