"""The sweep home, and the folder of each sweep in it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.storage import lock

STORE_NAMES = ("mlflow.db", "mlartifacts")
"""The store in a home: MLflow's SQLite file and its artifacts."""


LEAST_FREE_MIB = 8.0
"""The space on the disk that a sweep needs to start: MLflow's file, and its first records."""


class HomeUnusable(Refusal):
    """A sweep home that cannot be used."""

    def __init__(self, home: Path, reason: str) -> None:
        super().__init__(f"Cannot write to {home}: {reason}. Set RNNSWEEP_HOME to another folder")


def free_mib(folder: Path) -> float:
    """Return the free space on the disk of a folder, in MiB."""
    return shutil.disk_usage(folder).free / 2**20


def sweep_home(*, any_kind: bool = False) -> Path:
    """Return `RNNSWEEP_HOME`, or `rnnsweep-data` in the current folder; always absolute.

    Raise `HomeUnusable` if that is no folder (but not with `any_kind`), or could never be one.
    """
    home = Path(os.environ.get("RNNSWEEP_HOME") or "rnnsweep-data")
    try:
        os.fsencode(home).decode("utf-8")  # as SQLite and MLflow need it
        home = home.expanduser().resolve()
        there = next(folder for folder in (home, *home.parents) if folder.exists())
        if not any_kind and not there.is_dir():
            raise HomeUnusable(home, f"{'it' if there == home else there} is a file")
    except (OSError, RuntimeError, ValueError) as error:
        raise HomeUnusable(home, str(error)) from error
    return home


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """The folder of one sweep name; each generation (`--fresh`) has a folder of its own in it."""

    home: Path
    name: str

    @property
    def path(self) -> Path:
        """`HOME/sweeps/NAME`."""
        return self.home / "sweeps" / self.name

    @property
    def log(self) -> Path:
        """The file with the lines of `rnnsweep run`, and the output of Ray and other processes."""
        return self.path / "run.log"

    def make(self) -> None:
        """Make the folder, if need be; raise `HomeUnusable` if it cannot be made or written."""
        for folder in (self.home, self.path.parent, self.path):
            try:
                # What is there keeps its mode.
                mode = 0o777 if folder == self.path else 0o700  # specs, code and logs
                folder.mkdir(mode=mode, parents=folder == self.home, exist_ok=True)
            except OSError as error:
                raise HomeUnusable(self.home, (error.strerror or str(error)).lower()) from error
            # Another user's folder, or a link to one, may lead what is written to any place.
            if {folder.lstat().st_uid, folder.stat().st_uid} != {os.geteuid()}:
                raise HomeUnusable(self.home, f"{folder} belongs to another user")
        for path in (self.home / name for name in STORE_NAMES):
            if os.path.lexists(path) and path.lstat().st_uid not in (0, os.geteuid()):
                raise HomeUnusable(self.home, f"{path} belongs to another user")
        if not os.access(self.path, os.W_OK):
            raise HomeUnusable(self.home, "permission denied")
        if (free := free_mib(self.path)) < LEAST_FREE_MIB:
            needed = f"a sweep needs {LEAST_FREE_MIB:.0f} MiB"
            raise HomeUnusable(self.home, f"its disk has {free:.1f} MiB free, {needed}")

    def expect_unlocked(self) -> None:
        """Raise `Locked` if another process holds the lock now."""
        if owner := lock.holder(self.path):
            raise lock.Locked(self.path, owner)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of all generations of a name, or raise `Locked` if another process does."""
        descriptor = lock.take_lock(self.path)
        try:
            yield
        finally:
            os.close(descriptor)

    def generation(self, number: int) -> Path:
        """Return `HOME/sweeps/NAME/NUMBER`."""
        return self.path / str(number)

    def latest(self) -> int:
        """Return the highest generation that has a folder; 0 if there is none."""
        return max(self.generations(), default=0)

    def generations(self) -> list[int]:
        """Return the generations that have a folder."""
        entries = self.path.iterdir() if self.path.is_dir() else ()
        return [int(path.name) for path in entries if path.name.isdecimal()]
