"""Files in folders that other users can prepare: what they put there leads nowhere."""

import errno
import os
import stat
from pathlib import Path

from orchestrator.core.errors import Refusal

_MOST_LINKS = 40  # as the kernel's


class NotOurs(Refusal, PermissionError):
    """A file or folder that another user could have put there."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(
            f"{path} is {kind}. Remove it, or set RNNSWEEP_HOME to a folder that only you can "
            "write to"
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
        raise NotOurs(path, f"larger than {most_bytes} bytes")
    return content


def write_named(path: Path, content: bytes) -> None:
    """Write a file that this user named, whole or not at all; write to a device or a pipe.

    Raise `PermissionError` for another user's symbolic link, which could lead to any file of this
    user, and for another user's named pipe; and `OSError` for what cannot be written.
    """
    from workloads.data.cache import atomic_write  # noqa: PLC0415  (NumPy: half a second)

    target = _follow_own_links(path)
    if not path.exists() or path.is_file():
        with atomic_write(target) as file:  # a full disk leaves no half of a report
            file.write(content)
        return
    if path.is_fifo() and path.stat().st_uid not in _trusted_users():
        raise PermissionError(errno.EACCES, "another user's named pipe", str(path))
    path.write_bytes(content)


def _follow_own_links(path: Path) -> Path:
    """Return where symbolic links of this user or of root lead; the last part is no link then."""
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return path
        if path.lstat().st_uid not in _trusted_users():
            raise PermissionError(errno.EACCES, "another user's symbolic link", str(path))
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _trusted_users() -> tuple[int, int]:
    return 0, os.geteuid()


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
    raise NotOurs(path, "not a regular file")
