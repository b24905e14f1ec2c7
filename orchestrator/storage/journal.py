"""The append-only journal of a sweep: one JSON object a line, one writer, on disk before it counts.

A record that `Journal.append` returned from survives SIGKILL and a power cut. Each line ends in a
checksum of its other bytes.
"""

import contextlib
import json
import os
import shlex
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal, first_problem, one_line
from orchestrator.core.formats import Format, WrittenBy, this_rnnsweep, written_by
from orchestrator.core.json_text import parse_json
from orchestrator.core.records import EndState
from orchestrator.core.stop_decision import StopDecision
from orchestrator.core.trial import (
    Block,
    Config,
    FinishedTrial,
    SweepIdentity,
    Trial,
    validated_json,
)
from orchestrator.storage import lock
from orchestrator.storage.private_files import open_private, read_anyones

JOURNAL_FILE = "journal.jsonl"


def _without_slices_set_aside(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of 15 as it is: its slices all count."""
    return line


FORMAT = Format("a journal", 16, {15: _without_slices_set_aside})
"""The format of all lines of a journal; a migration gets one line, without its checksum."""


@dataclass(frozen=True, slots=True)
class SweepOpened:
    """The first record of each journal: the sweep's identity, and the spec that opened it.

    The random `sweep_id` is also in the sweep's parent run: another sweep may have an equal spec.
    """

    record: Literal["sweep_opened"] = field(default="sweep_opened", kw_only=True)
    identity: SweepIdentity
    spec: Mapping[str, Any]
    sweep_id: str = ""
    journal_version: int = field(default_factory=lambda: FORMAT.number)
    written_by: WrittenBy = field(default_factory=this_rnnsweep)


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The start of a driver by a version and commit of rnnsweep; the sizes are the plan's.

    `blocks` is the highest number of blocks, including the earlier blocks that the plan skips
    (`skipped_blocks`). With `may_stop_early` a rule may stop the sweep before its last block.
    `failures` is the limit of equal failures in a row. `code` is the workload's own code from here
    on.
    """

    record: Literal["session_started"] = field(default="session_started", kw_only=True)
    at_s: float
    pid: int
    host: str
    version: str
    blocks: int
    repeats: int
    arms: list[Arm]
    may_stop_early: bool = False
    skipped_blocks: list[int] = field(default_factory=list)
    failures: int | None = None
    code: dict[str, str] = field(default_factory=dict)
    commit: str = ""

    def has_block(self, index: int) -> bool:
        """Return whether the plan had the block of this index."""
        return index < self.blocks and index not in self.skipped_blocks

    def includes(self, trial: Trial) -> bool:
        """Return whether the plan had a trial: arms, blocks and repeats can be fewer now."""
        has_slot = self.has_block(trial.block) and trial.repeat < self.repeats
        return has_slot and trial.arm in self.arms


@dataclass(frozen=True, slots=True)
class BlockSuggested:
    """A config that the sampler suggested."""

    record: Literal["block_suggested"] = field(default="block_suggested", kw_only=True)
    block: int
    config: Config
    at_s: float


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """The end of a trial, with any outcome. Of several with one key the last one counts."""

    record: Literal["trial_finished"] = field(default="trial_finished", kw_only=True)
    finished: FinishedTrial


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """The end of a round of several trials: all, or none where the driver was killed."""

    record: Literal["round_finished"] = field(default="round_finished", kw_only=True)
    finished: list[FinishedTrial]


@dataclass(frozen=True, slots=True)
class StopDecided:
    """The decision to suggest no more blocks.

    A start with the same nodes and spec comes to it again from the outcomes.
    """

    record: Literal["stop_decided"] = field(default="stop_decided", kw_only=True)
    at_s: float
    decision: StopDecision


@dataclass(frozen=True, slots=True)
class AttemptLost:
    """An attempt at the trials of a round that was lost with its worker or its node.

    `slot_s` is how long they had their slot together. A retry is charged for it when it ends.
    """

    record: Literal["attempt_lost"] = field(default="attempt_lost", kw_only=True)
    at_s: float
    keys: list[str]
    slot_s: float


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The regular end of a driver; `state` as in the tracking store."""

    record: Literal["session_ended"] = field(default="session_ended", kw_only=True)
    at_s: float
    state: EndState


Opening: TypeAlias = SweepOpened | SessionStarted | BlockSuggested
LaterRecord: TypeAlias = TrialFinished | RoundFinished | AttemptLost | StopDecided | SessionEnded
Record: TypeAlias = Opening | LaterRecord

_LINE: TypeAdapter[Record] = TypeAdapter(
    Annotated[Record, Field(discriminator="record")],
    config=ConfigDict(strict=True, extra="forbid", ser_json_inf_nan="constants"),
)
"""Reads and writes one line, strictly: an unknown key or a text for a number is refused."""

_CHECKSUM = -len(b',"crc32":"12345678"}')
_RUNNING_NAME = "running.json"
_RUNNING = TypeAdapter(list[tuple[float, str]])


@dataclass(slots=True)
class JournalState:
    """The state of a sweep after the records of its journal.

    `order` has `blocks` and `finished` in one sequence, by index and by key. A trial that ended
    twice, or a block that was suggested twice, counts once, as it was last; `all_outcomes` has the
    replaced ones too. `lost_s` has, by key, a trial's share of the time that its lost attempts had
    their slots; `lost_attempts` is their number in the last session. `ended` is None while a
    session runs, or where it was killed.
    """

    identity: SweepIdentity
    spec: Mapping[str, Any]
    sweep_id: str = ""
    sessions: list[SessionStarted] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    order: dict[int | str, Block | FinishedTrial] = field(default_factory=dict)
    all_outcomes: list[FinishedTrial] = field(default_factory=list)
    ended: SessionEnded | None = None
    stop_decision: StopDecision | None = None
    lost_s: dict[str, float] = field(default_factory=dict)
    lost_attempts: int = 0

    def add(self, record: Record) -> None:
        """Apply the next record."""
        match record:
            case SessionStarted():
                self.sessions.append(record)
                self.lost_attempts = 0
                self.identity = replace(self.identity, code=record.code)
                self.ended = self.stop_decision = None
            case BlockSuggested(block=index, config=config):
                self.blocks.pop(index, None)
                self.order.pop(index, None)
                self.blocks[index] = self.order[index] = Block(index, config)
            case TrialFinished(finished=finished):
                self._finish(finished)
            case RoundFinished(finished=members):
                for member in members:
                    self._finish(member)
            case AttemptLost(keys=keys, slot_s=slot_s):
                self.lost_attempts += 1
                for key in keys:
                    self.lost_s[key] = self.lost_s.get(key, 0.0) + slot_s / len(keys)
            case StopDecided(decision=decision):
                self.stop_decision = decision
            case SessionEnded():
                self.ended = record

    def outcomes(self, *, retry_failed: bool) -> Iterator[FinishedTrial]:
        """Yield the outcomes that decide which arms are stopped, in the order of ending.

        Outcomes of trials that are timed again are among them: failures before and after are not
        in a row.
        """
        for finished in self.all_outcomes:
            is_latest = self.finished[finished.key] is finished
            if finished.status != "failed" or (is_latest and not retry_failed):
                yield finished

    def _finish(self, finished: FinishedTrial) -> None:
        if finished.block not in self.blocks:  # its line was damaged, and the user deleted it
            self.add(BlockSuggested(finished.block, finished.config, finished.started_s))
        self.lost_s.pop(finished.key, None)
        self.finished.pop(finished.key, None)
        self.order.pop(finished.key, None)
        self.finished[finished.key] = self.order[finished.key] = finished
        self.all_outcomes.append(finished)


def replay(records: Iterable[Record], state: JournalState | None = None) -> JournalState | None:
    """Return the state after these records; without a state, the first opens the sweep."""
    for record in records:
        if isinstance(record, SweepOpened):
            state = JournalState(record.identity, record.spec, record.sweep_id)
        else:
            assert state is not None
            state.add(record)
    return state


class JournalError(Refusal, RuntimeError):
    """A journal that cannot be used as it is."""


class Draft:
    """Records that are written nowhere, for a plan; `state` is None until one opens the sweep."""

    def __init__(self, state: JournalState | None) -> None:
        self.state = state

    def append(self, record: Record) -> None:
        """Apply one record."""
        self.state = replay([record], self.state)

    def clear(self) -> None:
        """Remove all records."""
        self.state = None


class Journal(Draft, contextlib.AbstractContextManager["Journal"]):
    """The one writer of a sweep's journal. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Become the writer of the journal in `folder`, which is made if need be.

        A journal of a former format is replaced, and kept under another name. Raise `Locked` if
        there is a writer, `JournalError` for a damaged line or a format that is not read.
        """
        self.path = folder / JOURNAL_FILE
        self.has_changed = False
        """Whether this writer has added or removed records."""
        self._guard = threading.Lock()
        self._lock = lock.take_lock(folder)
        try:
            self._file = open_private(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            if _migrate_file(self.path):
                os.close(self._file)
                self._file = open_private(self.path, os.O_RDWR | os.O_APPEND)
            records, self._size = _parse(self.path, self.path.read_bytes())
            super().__init__(replay(records))
            os.ftruncate(self._file, self._size)  # removes a line that a crash left incomplete
            os.fsync(self._file)
            _sync_folder(folder)
            _sync_folder(folder.parent)
        except BaseException:
            os.close(self._lock)
            raise

    def append(self, record: Record) -> None:
        """Write one record to disk; remove it and raise `OSError` if the disk is full."""
        line = _signed(validated_json(_LINE, record)) + b"\n"
        with self._guard:
            try:
                written = os.write(self._file, line)
                if written < len(line):
                    raise OSError(f"{self.path}: wrote {written} of {len(line)} bytes; disk full?")
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, self._size)
                raise
            self._size += len(line)
            self.has_changed = True
            super().append(record)

    def clear(self) -> None:
        """Remove all records, on disk too."""
        with self._guard:
            os.ftruncate(self._file, 0)
            os.fsync(self._file)
            self._size = 0
            self.has_changed = True
            super().clear()

    def show_running(self, running: Sequence[tuple[float, str]]) -> None:
        """Replace the file of the times (epoch, s) from which on trials run, each with a text.

        It is for `rnnsweep status` alone: nothing waits for the disk, and a full one is no error.
        """
        new = self.path.with_name(f"{_RUNNING_NAME}.new")
        with contextlib.suppress(OSError):
            with os.fdopen(open_private(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(_RUNNING.dump_json(list(running)))
            new.replace(self.path.with_name(_RUNNING_NAME))

    def close(self) -> None:
        """Release the journal for the next writer. Can be called twice."""
        if self._lock >= 0:
            os.close(self._file)
            os.close(self._lock)
            self._lock = -1

    def __exit__(self, *_: object) -> None:
        self.close()


def read(folder: Path) -> JournalState | None:
    """Return the state in `folder`'s journal without becoming its writer; None if there is none.

    A last line that is still being written is left out. Raise `JournalError` as `Journal` does, and
    `NotOurs` for what is no regular file: a named pipe would be waited for.
    """
    path = folder / JOURNAL_FILE
    try:
        return replay(_parse(path, read_anyones(path))[0])
    except FileNotFoundError:
        return None


def read_running(folder: Path, since_s: float) -> list[tuple[float, str]]:
    """Return what the start that began at `since_s` runs, while its driver is alive."""
    try:
        running = _RUNNING.validate_json(read_anyones(folder / _RUNNING_NAME))
    except (OSError, ValidationError):
        return []
    return [entry for entry in running if entry[0] >= since_s]


def _parse(path: Path, data: bytes) -> tuple[list[Record], int]:
    """Return the whole records in `data`, and their size in bytes."""
    lines = data.split(b"\n")[:-1]  # what follows the last newline was never acknowledged
    number = _format_number(path, lines)
    records: list[Record] = []
    size = 0
    for at, line in enumerate(lines, 1):
        record, reason = _read_line(line, number)
        if record is None and at == len(lines):
            break  # a crash of the machine can leave a line of the right length and no content
        if record is None:
            raise _corrupt(path, at, reason)
        if isinstance(record, SweepOpened) != (at == 1):
            raise _corrupt(path, at, f"a record {record.record} cannot stand here")
        records.append(record)
        size += len(line) + 1
    return records, size


def _migrate_file(path: Path) -> bool:
    """Write a journal of a former format in the present one; return whether it was of one.

    The former journal is kept next to it, with its format in its name.
    """
    data = path.read_bytes()
    number = _format_number(path, data.split(b"\n")[:-1])
    if number == FORMAT.number:
        return False
    records = _parse(path, data)[0]
    if records and isinstance(records[0], SweepOpened):
        records[0] = replace(records[0], written_by=this_rnnsweep())
    lines = [_signed(validated_json(_LINE, record)) for record in records]
    _replace(path, lines, path.with_name(f"journal-format-{number}-{time.time_ns()}.jsonl"))
    return True


def _signed(body: bytes) -> bytes:
    return body[:-1] + b',"crc32":"%08x"}' % zlib.crc32(body)


def _checksum_differs(line: bytes) -> bool:
    return line != _signed(line[:_CHECKSUM] + b"}")


def _read_line(line: bytes, number: int) -> tuple[Record | None, str]:
    """Return the record of a line of a journal of this format, or None and why it is none."""
    if _checksum_differs(line):
        return None, "its checksum differs"
    body = line[:_CHECKSUM] + b"}"
    try:
        return _LINE.validate_json(body if number == FORMAT.number else _migrated(body, number)), ""
    except ValidationError as error:
        return None, first_problem(error)
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # of a migration
        return None, f"{type(error).__name__}: {one_line(error)}"


def _migrated(body: bytes, number: int) -> str:
    content = FORMAT.migrate(parse_json(body), number)
    if content.get("record") == "sweep_opened":
        content["journal_version"] = FORMAT.number
    return json.dumps(content)


def _corrupt(path: Path, line: int, reason: str) -> JournalError:
    """Return the error for a line that is no record before whole lines: no crash leaves that."""
    name = shlex.quote(str(path))
    if line == 1:  # it has the identity of the sweep
        cure = f"Move the file away (mv {name} {name}.damaged)"
    else:
        cure = f"Delete this line (sed -i {line}d {name})"
    return JournalError(
        f"{path}, line {line} is damaged: {reason}. {cure}, and start the sweep again: missing"
        " trials are read back from MLflow, or run again"
    )


def _format_number(path: Path, lines: Sequence[bytes]) -> int:
    """Return the format of a journal; raise `JournalError` if it is not read.

    Without a whole first line that tells it, it is the present format: that line is damaged. Lines
    of the oldest formats had no checksum.
    """
    if not lines or (b'"crc32":' in lines[0] and _checksum_differs(lines[0])):
        return FORMAT.number
    try:
        value = parse_json(lines[0])
    except ValueError:
        return FORMAT.number
    if not isinstance(value, dict) or value.get("record") != "sweep_opened":
        return FORMAT.number
    number = value.get("journal_version")
    if FORMAT.reads(number):
        return number
    writer = written_by(value.get("written_by"))
    raise JournalError(FORMAT.refusal(f"{path}, line 1", number, writer))


def _replace(path: Path, lines: Iterable[bytes], kept: Path) -> None:
    """Replace a journal, and keep the old one under another name.

    Whenever the power fails, the journal is the old one or the whole new one.
    """
    new = path.with_name(f"{JOURNAL_FILE}.new")
    _write_synced(new, b"".join(line + b"\n" for line in lines))
    os.link(path, kept)
    _sync_folder(path.parent)
    new.replace(path)
    _sync_folder(path.parent)


def _write_synced(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, as the journal, and wait until it is on disk."""
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    """Sync a folder: a new file's name is on disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
