"""Files that only this user may have made, in folders that others can prepare."""

import errno
import os
import stat
from pathlib import Path

from orchestrator.core.errors import Refusal


class NotOurs(Refusal, PermissionError):
    """A file or folder that another user could have put there."""

    def __init__(self, path: Path, received: str) -> None:
        super().__init__(
            f"{path}: expected a file that only this user can have made, received {received}. "
            "Remove it, or set RNNSWEEP_HOME to a folder in which nobody else can write"
        )


def open_private(path: Path, flags: int) -> int:
    """Open a regular file of this user, made with mode 0600 if `flags` say so.

    Raise `NotOurs` for a symbolic link (which could lead to any file of this user), for another
    user's file and for what is no regular file; never wait, as opening a named pipe would. Raise
    `OSError` as `os.open` does.
    """
    descriptor = _open_regular(path, flags)
    if os.fstat(descriptor).st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise NotOurs(path, "another user's file")


def read_anyones(path: Path) -> bytes:
    """Return the content of a regular file of any user; raise as `open_private` does."""
    with os.fdopen(_open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def read_private(path: Path, most_bytes: int) -> bytes:
    """Return a small file of this user; raise `OSError` as `open_private` does, or if larger."""
    descriptor = open_private(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotOurs(path, f"one of more than {most_bytes} bytes")
    return content


def _open_regular(path: Path, flags: int) -> int:
    safe_flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | safe_flags, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotOurs(path, "a symbolic link") from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotOurs(path, "no regular file")
