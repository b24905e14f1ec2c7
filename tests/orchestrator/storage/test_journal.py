"""The journal: what was acknowledged is there, whatever happened since."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.arms import Arm
from orchestrator.core.trial import (
    Block,
    Config,
    EpochRecord,
    FailureRecord,
    FinishedTrial,
    Outcome,
    SweepIdentity,
    make_trial,
)
from orchestrator.storage import journal
from orchestrator.storage.journal import (
    AttemptStarted,
    BlockSuggested,
    Journal,
    JournalCorrupt,
    JournalVersion,
    Record,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    TrialFinished,
    rebuild,
    replay,
)
from orchestrator.storage.lock import Locked
from tests.orchestrator.sample_hardware import on_cpu

CPU = Arm("tensorflow/portable", on_cpu())
IDENTITY = SweepIdentity("quickstart", 1, "image_rows", {"epochs": 3}, {"sampler": "tpe"}, 7, "ab")


def finished(block: int, **changes: object) -> FinishedTrial:
    outcome = Outcome(
        "complete",
        100.0 + block,
        105.5 + block,
        metrics={"loss": 0.1 + 0.2, "bad": float("inf")},
        epochs=(EpochRecord(0, 0.5, None, {"loss": 1.5}),),
    )
    config: Config = {"units": 32, "rate": 1.0, "xla": True, "cell": "größe\n"}
    trial = make_trial(IDENTITY, Block(block, config), CPU, 0)
    return FinishedTrial(trial, replace(outcome, **changes))  # type: ignore[arg-type]


RECORDS: tuple[Record, ...] = (
    SweepOpened(IDENTITY, {"name": "quickstart", "arms": {"hardware": ["cpu"]}}),
    SessionStarted(1.5, 42, "host", "0.1.0", 4, 1, [CPU], skipped_blocks=[2]),
    BlockSuggested(0, finished(0).trial.config, 2.5),
    AttemptStarted(finished(0).trial.key, 1, 2.75, 0, CPU, 0),
    BlockSuggested(1, finished(1).trial.config, 3.0),
    TrialFinished(finished(0)),
    TrialFinished(finished(1, status="failed", failure=FailureRecord("error", "boom", "x\ny"))),
    SessionEnded(9.0, "stopped"),
)


def write(folder: Path, records: tuple[Record, ...] = RECORDS) -> bytes:
    with Journal.open(folder) as opened:
        for record in records:
            opened.append(record)
    return (folder / journal.FILE_NAME).read_bytes()


def test_what_is_written_is_read_back_equal(tmp_path: Path) -> None:
    write(tmp_path)
    with Journal.open(tmp_path) as opened:
        assert opened.records == RECORDS
    assert journal.read(tmp_path) == RECORDS
    config = journal.read(tmp_path)[2].config  # type: ignore[union-attr]
    assert [type(value) for value in config.values()] == [int, float, bool, str]


def test_a_journal_that_is_not_there_is_empty_and_stays_away(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_cut_at_any_byte_it_loses_at_most_the_last_record(
    tmp_path: Path, data: st.DataObject
) -> None:
    whole = write(tmp_path / "whole") if not (tmp_path / "whole").exists() else None
    whole = whole or (tmp_path / "whole" / journal.FILE_NAME).read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    folder = tmp_path / "cut"
    folder.mkdir(exist_ok=True)
    (folder / journal.FILE_NAME).write_bytes(whole[:size])

    acknowledged = whole[:size].count(b"\n")
    assert journal.read(folder) == RECORDS[:acknowledged]
    with Journal.open(folder) as opened:
        assert opened.records == RECORDS[:acknowledged]
        if acknowledged:
            opened.append(RECORDS[-1])
    if acknowledged:
        assert journal.read(folder) == (*RECORDS[:acknowledged], RECORDS[-1])


def test_a_last_line_that_the_disk_lost_is_dropped(tmp_path: Path) -> None:
    whole = write(tmp_path)
    lost = b"\0" * 40 + b"\n"
    (tmp_path / journal.FILE_NAME).write_bytes(whole + lost)
    assert journal.read(tmp_path) == RECORDS


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (b"{not json}", "Invalid JSON"),
        (b'{"record":"block_suggested","block":"3","config":{},"at_s":1.0}', "valid integer"),
        (b'{"record":"block_suggested","block":3,"config":{},"at_s":1.0,"x":1}', "x"),
        (b'{"record":"unheard_of"}', "unheard_of"),
        (b'{"record":"sweep_opened","journal_version":7,"identity":0}', "identity"),
    ],
)
def test_damage_in_the_middle_is_reported_with_its_line(
    tmp_path: Path, damage: bytes, reason: str
) -> None:
    lines = write(tmp_path).splitlines()
    lines[2] = damage
    (tmp_path / journal.FILE_NAME).write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(JournalCorrupt) as caught:
        Journal.open(tmp_path)
    message = str(caught.value)
    assert f"{tmp_path / journal.FILE_NAME}, line 3: expected a journal record" in message
    assert reason in message
    assert "Move the file away and run the same command again" in message
    Path(tmp_path / journal.FILE_NAME).unlink()
    Journal.open(tmp_path).close()  # the refused opening holds no lock


def test_the_first_record_opens_the_sweep_and_no_other_does(tmp_path: Path) -> None:
    lines = write(tmp_path).splitlines(keepends=True)
    (tmp_path / journal.FILE_NAME).write_bytes(b"".join(lines[1:]))
    with pytest.raises(JournalCorrupt, match=r"line 1.*session_started as record 1"):
        journal.read(tmp_path)
    (tmp_path / journal.FILE_NAME).write_bytes(lines[0] * 2)
    with pytest.raises(JournalCorrupt, match=r"line 2.*sweep_opened as record 2"):
        journal.read(tmp_path)


@pytest.mark.parametrize("line", [0, 1])
@pytest.mark.parametrize("extra", [{}, {"a_new_field": 1}])
@pytest.mark.parametrize("version", [99, 5, None])
def test_a_journal_of_another_version_is_refused(
    tmp_path: Path, line: int, extra: dict[str, int], version: int | None
) -> None:
    lines = write(tmp_path).splitlines()
    changed = json.loads(lines[line]) | {"journal_version": version} | extra
    if version is None:
        del changed["journal_version"]
    lines[line] = json.dumps(changed).encode()
    (tmp_path / journal.FILE_NAME).write_bytes(b"\n".join(lines) + b"\n")
    received = "no version" if version is None else f"version {version}"
    for opened in (journal.read, Journal.open):
        with pytest.raises(JournalVersion) as caught:
            opened(tmp_path)
        message = str(caught.value)
        place = f"{tmp_path / journal.FILE_NAME}, line {line + 1}"
        assert message.startswith(f"{place}: expected a journal of version 7, received {received}:")
        assert "--fresh" in message


def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with Journal.open(tmp_path), pytest.raises(Locked, match=f"pid {os.getpid()} on "):
        Journal.open(tmp_path)
    Journal.open(tmp_path).close()


def test_a_line_that_does_not_fit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with Journal.open(tmp_path) as opened:
        opened.append(RECORDS[0])
        monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
        with pytest.raises(OSError, match="disk full"):
            opened.append(RECORDS[1])
        monkeypatch.undo()
        opened.append(RECORDS[2])
    assert journal.read(tmp_path) == (RECORDS[0], RECORDS[2])


def test_texts_that_are_no_unicode_do_not_end_the_sweep(tmp_path: Path) -> None:
    nasty = FailureRecord("error", "file \udcff", "größe \0")
    write(tmp_path, (RECORDS[0], TrialFinished(finished(0, status="failed", failure=nasty))))
    expected = replace(nasty, message="file ?")
    assert journal.read(tmp_path)[1] == TrialFinished(
        finished(0, status="failed", failure=expected)
    )


WRITER = """
import sys
from pathlib import Path
from orchestrator.storage.journal import BlockSuggested, Journal, SweepOpened
from orchestrator.core.trial import SweepIdentity
with Journal.open(Path(sys.argv[1])) as journal:
    journal.append(SweepOpened(SweepIdentity("q", 1, "w", {}, {}, 1, None), {}))
    for block in range(10**6):
        journal.append(BlockSuggested(block, {"units": block}, 1.0))
        print(block, flush=True)
"""


@contextmanager
def writer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process


def test_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    with writer(tmp_path) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "50":
            pass
        with pytest.raises(Locked, match=f"pid {process.pid}"):
            Journal.open(tmp_path)
        process.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in process.stdout]
    last = max([50, *acknowledged])
    with Journal.open(tmp_path) as opened:  # the lock went with its holder
        blocks = [record.block for record in opened.records if isinstance(record, BlockSuggested)]
    assert blocks[: last + 1] == list(range(last + 1))
    assert len(blocks) <= last + 2


def test_replay_folds_and_keeps_the_order() -> None:
    state = replay(RECORDS)
    assert state is not None
    assert state.identity == IDENTITY
    assert list(state.blocks) == [0, 1]
    assert [trial.block for trial in state.finished.values()] == [0, 1]
    assert [type(record).__name__ for record in state.order] == [
        "BlockSuggested",
        "BlockSuggested",
        "TrialFinished",
        "TrialFinished",
    ]
    assert state.attempts[finished(0).trial.key].attempt == 1
    assert state.ended == SessionEnded(9.0, "stopped")
    assert replay((*RECORDS, RECORDS[1])).ended is None  # type: ignore[union-attr]


def test_a_retried_trial_counts_once_with_its_last_outcome() -> None:
    retried = finished(1, attempt=2, ended_s=500.0)
    state = replay((*RECORDS, TrialFinished(finished(2)), TrialFinished(retried)))
    assert state is not None
    assert [trial.block for trial in state.finished.values()] == [0, 2, 1]
    assert state.finished[retried.trial.key] == retried
    sampled = [record.finished for record in state.order if isinstance(record, TrialFinished)]
    assert sampled == [finished(0), finished(2), retried]


def test_replay_of_nothing_and_of_a_headless_journal() -> None:
    assert replay(()) is None
    with pytest.raises(ValueError, match=r"expected sweep_opened.*received session_started"):
        replay(RECORDS[1:])


def test_a_lost_journal_is_rebuilt_from_trials(tmp_path: Path) -> None:
    trials = [finished(3), finished(0), finished(3, ended_s=400.0)]
    trials[2] = replace(trials[2], trial=replace(trials[2].trial, repeat=1, key="other"))
    write(tmp_path, tuple(rebuild(IDENTITY, {"name": "q"}, trials)))
    state = replay(journal.read(tmp_path))
    assert state is not None
    assert list(state.blocks) == [0, 3]
    assert list(state.finished.values()) == [finished(0), finished(3), trials[2]]
