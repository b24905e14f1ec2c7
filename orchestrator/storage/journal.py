"""The append-only journal of a sweep: one JSON object a line, one writer, on disk before it counts.

The next start reads it. A record that `Journal.append` returned from survives SIGKILL and, except
for attempts, a power cut. A last line torn by either is cut off. `orchestrator.storage.replay`
folds the records into a state.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

from orchestrator.core.errors import wrong_version
from orchestrator.core.trial import to_json
from orchestrator.storage import lock
from orchestrator.storage.journal_records import (
    VERSION,
    AttemptStarted,
    BlocksEnough,
    BlockSuggested,
    Record,
    RoundFinished,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    TrialFinished,
    line_adapter,
)
from orchestrator.storage.replay import SweepState, rebuild, replay

__all__ = [
    "AttemptStarted",
    "BlockSuggested",
    "BlocksEnough",
    "Journal",
    "JournalCorrupt",
    "JournalError",
    "JournalVersion",
    "Record",
    "RoundFinished",
    "SessionEnded",
    "SessionStarted",
    "SweepOpened",
    "SweepState",
    "TrialFinished",
    "read",
    "rebuild",
    "replay",
]

FILE_NAME = "journal.jsonl"
_VERSIONED = ("sweep_opened", "session_started")


class JournalError(RuntimeError):
    """A journal that cannot be used as it is."""


class JournalCorrupt(JournalError):
    """A line that is no record before whole lines: no crash leaves that behind."""

    def __init__(self, path: Path, line: int, received: str) -> None:
        super().__init__(
            f"{path}, line {line}: expected a journal record, received {received}. Move the file"
            " away and run the same command again: finished trials are read back from MLflow"
        )
        self.path, self.line = path, line


class JournalVersion(JournalError):
    """A journal that another version of rnnsweep wrote."""

    def __init__(self, path: Path, line: int, version: object) -> None:
        super().__init__(wrong_version(f"{path}, line {line}", "a journal", VERSION, version))


class Journal:
    """The one writer of a sweep's journal. Thread-safe; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._guard = threading.Lock()
        self._lock = lock.take(folder)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self.records, self._size = _parse(self.path, self.path.read_bytes())
            os.ftruncate(self._file, self._size)  # removes a line torn by a crash
            os.fsync(self._file)
            _sync_folder(folder)
            _sync_folder(folder.parent)
        except BaseException:
            os.close(self._lock)
            raise

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Become the writer of the journal in `folder`, which is made if need be.

        `.records` has the records that it had.

        Raises:
            Locked: another process holds it.
            JournalCorrupt: a line in the middle is damaged.
            JournalVersion: another version of rnnsweep wrote it.
        """
        return cls(folder)

    def append(self, record: Record) -> None:
        """Write one record. It is on disk when this returns (`AttemptStarted`: in the kernel).

        Raises:
            OSError: the line could not be written whole (disk full); it is removed.
        """
        line = to_json(line_adapter, record) + b"\n"
        with self._guard:
            try:
                written = os.write(self._file, line)
                if written < len(line):
                    raise OSError(f"{self.path}: wrote {written} of {len(line)} bytes; disk full?")
                if not isinstance(record, AttemptStarted):
                    os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, self._size)
                raise
            self._size += len(line)

    def close(self) -> None:
        """Release the journal for the next writer. Can be called twice."""
        if self._lock >= 0:
            os.close(self._file)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read(folder: Path) -> tuple[Record, ...]:
    """Return the records of `folder`'s journal without becoming its writer; () if there is none.

    A last line that is still being written is left out.

    Raises:
        JournalCorrupt, JournalVersion: as `Journal.open`.
    """
    path = folder / FILE_NAME
    try:
        return _parse(path, path.read_bytes())[0]
    except FileNotFoundError:
        return ()


def _parse(path: Path, data: bytes) -> tuple[tuple[Record, ...], int]:
    """Return the whole records in `data`, and their size in bytes."""
    lines = data.split(b"\n")[:-1]  # what follows the last newline was never acknowledged
    records: list[Record] = []
    size = 0
    for number, line in enumerate(lines, 1):
        try:
            record = line_adapter.validate_json(line)
        except ValidationError as error:
            problem = error.errors()[0]
            if problem["type"] == "json_invalid" and number == len(lines):
                break  # a crash of the machine can leave a line of the right length and no content
            _expect_version(path, number, line)
            place = ".".join(map(str, problem["loc"])) or "the line"
            raise JournalCorrupt(path, number, f"{place}: {problem['msg']}") from error
        if isinstance(record, SweepOpened | SessionStarted):
            _expect_version(path, number, line)
        if isinstance(record, SweepOpened) != (number == 1):
            raise JournalCorrupt(path, number, f"{record.record} as record {number}")
        records.append(record)
        size += len(line) + 1
    return tuple(records), size


def _expect_version(path: Path, number: int, line: bytes) -> None:
    """Refuse a record that names another version, or that has to name one and does not."""
    try:
        value = json.loads(line)
    except ValueError:
        return
    if isinstance(value, dict) and value.get("record") in _VERSIONED:
        version = value.get("journal_version")
        if version != VERSION:
            raise JournalVersion(path, number, version)


def _sync_folder(folder: Path) -> None:
    """Sync a folder: a new file's name is on disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
