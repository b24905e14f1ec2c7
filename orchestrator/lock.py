"""One process at a time: a lock on a folder that the kernel frees with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from orchestrator.refusal import Refusal

FILE_NAME = "lock"


class Locked(Refusal):
    """Another process holds the lock."""

    def __init__(self, folder: Path, holder: str) -> None:
        super().__init__(
            f"{folder}: expected no other driver of this sweep, but {holder} is running it. "
            "Follow it with `rnnsweep status`, or stop it first"
        )
        self.holder = holder


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be.

    Raises:
        Locked: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace").strip()
            raise Locked(folder, holder or "another process") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(folder: Path) -> str | None:
    """Who holds the lock of a folder; None if nobody does. Takes nothing."""
    try:
        descriptor = os.open(folder / FILE_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 1000, 0).decode(errors="replace").strip() or "another process"
    else:
        return None
    finally:
        os.close(descriptor)
