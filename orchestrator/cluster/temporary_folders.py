"""Temporary folders of a driver, which no other user of the machine can enter or replace."""

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from orchestrator.core.errors import Refusal
from orchestrator.storage.lock import Owner, parse_owner, write_owner
from orchestrator.storage.private_files import read_private

_MARK = ".rnnsweep-owner"
_RAY, _TUNE = "rnn-ray-", "rnnsweep-tune-"

_BELOW = f"/{_RAY}12345678/r/session_2026-11-27_19-51-36_123456_1234567/sockets/plasma_store"
_LONGEST = 107 - len(_BELOW)
"""The longest folder for Ray's temporary files: the kernel takes 107 bytes as a socket's name."""

_UNMARKED_S = 60.0
"""The age from which a folder without a whole mark is left over: it is marked once it is made."""


class NoTemporaryFolder(Refusal):
    """No folder of this machine can have the temporary files of Ray."""


@contextlib.contextmanager
def ray_folder() -> Iterator[Path]:
    """Make a folder for Ray's temporary files (`ray.init(_temp_dir=…)`); remove it at the end.

    Ray gives its own folders mode 0777, again and again, so this one lies in one of mode 0700.
    """
    folder = Path(tempfile.mkdtemp(prefix=_RAY, dir=_parent()))
    try:
        mark(folder)
        inner = folder / "r"
        inner.mkdir()
        yield inner
    finally:
        _end_agents(folder)
        shutil.rmtree(folder, ignore_errors=True)  # megabytes of logs


@contextlib.contextmanager
def tune_folder() -> Iterator[Path]:
    """Make a folder for the files of Ray Tune, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix=_TUNE, ignore_cleanup_errors=True) as folder:
        mark(Path(folder))
        yield Path(folder)


def mark(folder: Path) -> None:
    """Note this process as the owner of a temporary folder; raise `OSError` if that fails."""
    write_owner(folder / _MARK, Owner.here())


def remove_leftovers() -> None:
    """Remove the folders whose driver has ended, with their agents; others stay."""
    for parent in {Path(tempfile.gettempdir()), *_parents()}:
        for prefix in (_RAY, _TUNE):
            for folder in parent.glob(f"{prefix}*"):
                with contextlib.suppress(OSError):
                    if folder.lstat().st_uid == os.geteuid() and _is_left_over(folder):
                        _end_agents(folder)
                        shutil.rmtree(folder)


def _end_agents(folder: Path) -> None:
    """End the agents of a raylet that write to a folder.

    The kernel ends a raylet with its driver. An agent that has just begun waits for the head then,
    for ten minutes.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            title = "".join(process.cmdline()[:1])  # Ray sets it
            if process.uids().real == os.getuid() and title.startswith("ray::"):
                files = (Path(file.path) for file in process.open_files())
                if any(file.is_relative_to(folder) for file in files):
                    process.kill()


def _is_left_over(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        owner = parse_owner(read_private(folder / _MARK, most_bytes=1024))
        if owner is not None:
            return owner.is_gone()
    return time.time() - folder.lstat().st_mtime > _UNMARKED_S


def _parents() -> Iterator[Path]:
    """Yield the folders that may have temporary files, the usual one first."""
    for name in (tempfile.gettempdir(), "/tmp", os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):
        if name:
            yield Path(name)


def _parent() -> Path:
    """Return a folder whose name is short enough, and in which nobody else can rename our folder.

    Raise `NoTemporaryFolder` if there is none.
    """
    reasons = []
    for parent in _parents():
        if reason := _why_not(parent):
            reasons.append(f"{parent} {reason}")
        else:
            return parent
    raise NoTemporaryFolder(
        f"no folder is suitable for Ray's temporary files: {'; '.join(reasons)}. Set TMPDIR to a"
        f" folder of your own with a name of at most {_LONGEST} bytes"
    )


def _why_not(parent: Path) -> str | None:
    """Return why a folder cannot have the temporary files of Ray; None if it can."""
    if len(os.fsencode(parent)) > _LONGEST:
        return f"has a name of more than {_LONGEST} bytes"
    try:
        facts = parent.stat()
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if not stat.S_ISDIR(facts.st_mode) or not os.access(parent, os.W_OK | os.X_OK):
        return "is not a folder that you can write to"
    if facts.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
        return "can be written by others, and lacks the sticky bit (chmod +t)"
    return None
