"""The sweep's append-only record: one JSON object a line, one writer, on disk before it counts.

What the next start reads. A record that `Journal.append` returned from survives SIGKILL and (all
but attempts) a power cut; a last line torn by either is cut off. `orchestrator.storage.replay`
folds the
records into a state.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import TracebackType

from pydantic import ValidationError

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
    "JournalTooNew",
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


class JournalError(RuntimeError):
    """A journal that cannot be used as it is."""


class JournalCorrupt(JournalError):
    """A line that is no record, with whole lines after it: no crash leaves that behind."""

    def __init__(self, path: Path, line: int, received: str) -> None:
        super().__init__(
            f"{path}, line {line}: expected a journal record, received {received}. Move the file"
            " away and run the same command again: finished trials are read back from MLflow"
        )
        self.path, self.line = path, line


class JournalTooNew(JournalError):
    """Written by a later rnnsweep than this one."""

    def __init__(self, path: Path, line: int, version: object) -> None:
        super().__init__(
            f"{path}, line {line}: expected a journal of version {VERSION} or older, received"
            f" version {version}. Continue this sweep with the newer rnnsweep that wrote it, or"
            " upgrade this one"
        )


class Journal:
    """The one writer of a sweep's journal. Thread-safe; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._guard = threading.Lock()
        self._lock = lock.take(folder)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self.records, self._size = _parse(self.path, self.path.read_bytes())
            os.ftruncate(self._file, self._size)  # a line torn by a crash goes away here
            os.fsync(self._file)
            _sync_folder(folder)
            _sync_folder(folder.parent)
        except BaseException:
            os.close(self._lock)
            raise

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Become the writer of the journal in `folder`, which is made if need be.

        `.records` is what was there.

        Raises:
            Locked: another process holds it.
            JournalCorrupt: a line in the middle is damaged.
            JournalTooNew: a later rnnsweep wrote it.
        """
        return cls(folder)

    def append(self, record: Record) -> None:
        """Write one record; when this returns it is on disk (`AttemptStarted`: with the kernel).

        Raises:
            OSError: the line could not be written whole (disk full); it is taken back.
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
        """Give the journal to the next writer. Can be called twice."""
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
    """The records of `folder`'s journal, without becoming its writer; () where there is none.

    A last line that is still being written is left out.

    Raises:
        JournalCorrupt, JournalTooNew: as `Journal.open`.
    """
    path = folder / FILE_NAME
    try:
        return _parse(path, path.read_bytes())[0]
    except FileNotFoundError:
        return ()


def _parse(path: Path, data: bytes) -> tuple[tuple[Record, ...], int]:
    """The whole records in `data`, and how many bytes they are."""
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
            _refuse_newer(path, number, line)
            place = ".".join(map(str, problem["loc"])) or "the line"
            raise JournalCorrupt(path, number, f"{place}: {problem['msg']}") from error
        if getattr(record, "journal_version", VERSION) > VERSION:
            _refuse_newer(path, number, line)
        if isinstance(record, SweepOpened) != (number == 1):
            raise JournalCorrupt(path, number, f"{record.record} as record {number}")
        records.append(record)
        size += len(line) + 1
    return tuple(records), size


def _refuse_newer(path: Path, number: int, line: bytes) -> None:
    try:
        value = json.loads(line)
    except ValueError:
        return
    version = value.get("journal_version", VERSION) if isinstance(value, dict) else VERSION
    if isinstance(version, int) and version > VERSION:
        raise JournalTooNew(path, number, version)


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
