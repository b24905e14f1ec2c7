"""The journal: what was acknowledged is there, whatever happened since."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.trial import Block, FailureRecord
from orchestrator.storage import journal, resume
from orchestrator.storage.journal import (
    VERSION,
    BlockSuggested,
    Journal,
    JournalError,
    Record,
    RoundFinished,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    TrialFinished,
    replay,
)
from orchestrator.storage.lock import Locked
from tests.orchestrator.sample_sweeps import IDENTITY, PORTABLE, XLA, failed, finished

RECORDS: tuple[Record, ...] = (
    SweepOpened(IDENTITY, {"name": "quickstart", "arms": {"hardware": ["cpu"]}}),
    SessionStarted(1.5, 42, "host", "0.1.0", 4, 1, [PORTABLE], skipped_blocks=[2]),
    BlockSuggested(0, {"units": 32, "rate": 1.0, "xla": True, "cell": "größe\n"}, 2.5),
    BlockSuggested(1, finished(1).config, 3.0),
    TrialFinished(finished(0, metrics={"loss": 0.1 + 0.2, "bad": float("inf")})),
    RoundFinished([failed(1), finished(1, XLA)]),
    SessionEnded(9.0, "stopped"),
)


def write(folder: Path, records: tuple[Record, ...] = RECORDS) -> bytes:
    with Journal(folder) as opened:
        for record in records:
            opened.append(record)
        assert opened.state == replay(records)
    return (folder / journal.FILE_NAME).read_bytes()


def test_what_is_written_is_read_back_with_its_types(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    write(tmp_path)
    state = journal.read(tmp_path)
    assert state is not None
    assert [type(value) for value in state.blocks[0].config.values()] == [int, float, bool, str]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_at_any_byte_it_loses_at_most_the_last_record(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "whole" / journal.FILE_NAME
    whole = path.read_bytes() if path.exists() else write(tmp_path / "whole")
    size = data.draw(st.integers(0, len(whole)))
    folder = tmp_path / "cut"
    folder.mkdir(exist_ok=True)
    (folder / journal.FILE_NAME).write_bytes(whole[:size])

    acknowledged = RECORDS[: whole[:size].count(b"\n")]
    assert journal.read(folder) == replay(acknowledged)
    with Journal(folder) as opened:
        assert opened.state == replay(acknowledged)
        if acknowledged:
            opened.append(RECORDS[-1])
    if acknowledged:
        assert journal.read(folder) == replay((*acknowledged, RECORDS[-1]))


def test_a_last_line_that_the_disk_lost_is_dropped(tmp_path: Path) -> None:
    whole = write(tmp_path)
    (tmp_path / journal.FILE_NAME).write_bytes(whole + b"\0" * 40 + b"\n")
    assert journal.read(tmp_path) == replay(RECORDS)


@pytest.mark.parametrize(
    ("line", "damage", "reason"),
    [
        (3, b"{not json}", "Invalid JSON"),
        (3, b'{"record":"block_suggested","block":"3","config":{},"at_s":1.0}', "valid integer"),
        (3, b'{"record":"block_suggested","block":3,"config":{},"at_s":1.0,"x":1}', "x"),
        (3, b'{"record":"unheard_of"}', "unheard_of"),
        (1, b'{"record":"session_ended","at_s":9.0,"state":"stopped"}', "session_ended as record"),
    ],
)
def test_damage_in_the_middle_is_reported_with_its_line(
    tmp_path: Path, line: int, damage: bytes, reason: str
) -> None:
    lines = write(tmp_path).splitlines()
    lines[line - 1] = damage
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(JournalError) as caught:
        Journal(tmp_path)
    message = str(caught.value)
    assert f"{path}, line {line}: expected a journal record" in message
    assert reason in message
    assert "Move the file away and run the same command again" in message
    path.unlink()
    Journal(tmp_path).close()  # the refused opening holds no lock


@pytest.mark.parametrize("extra", [{}, {"a_new_field": 1}])
@pytest.mark.parametrize("version", [99, 5, None])
def test_a_journal_of_another_version_is_refused(
    tmp_path: Path, extra: dict[str, int], version: int | None
) -> None:
    first, *rest = write(tmp_path).splitlines(keepends=True)
    changed = json.loads(first) | {"journal_version": version} | extra
    if version is None:
        del changed["journal_version"]
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(json.dumps(changed).encode() + b"\n" + b"".join(rest))
    received = "no version" if version is None else f"version {version}"
    expected = f"{path}, line 1: expected a journal of version {VERSION}, received {received}:"
    for opened in (journal.read, Journal):
        with pytest.raises(JournalError) as caught:
            opened(tmp_path)
        assert str(caught.value).startswith(expected)
        assert "--fresh" in str(caught.value)


def test_a_line_that_does_not_fit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with Journal(tmp_path) as opened:
        opened.append(RECORDS[0])
        monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
        with pytest.raises(OSError, match="disk full"):
            opened.append(RECORDS[1])
        monkeypatch.undo()
        opened.append(RECORDS[2])
        assert opened.state == replay((RECORDS[0], RECORDS[2]))
    assert journal.read(tmp_path) == replay((RECORDS[0], RECORDS[2]))


def test_texts_that_are_no_unicode_do_not_end_the_sweep(tmp_path: Path) -> None:
    nasty = failed(0, failure=FailureRecord("error", "file \udcff", "größe \0"))
    with Journal(tmp_path) as opened:
        opened.append(RECORDS[0])
        opened.append(TrialFinished(nasty))
    state = journal.read(tmp_path)
    assert state is not None
    assert state.finished[nasty.key].failure == FailureRecord("error", "file ?", "größe \0")


WRITER = """
import sys
from pathlib import Path
from orchestrator.storage.journal import BlockSuggested, Journal, SweepOpened
from tests.orchestrator.sample_sweeps import IDENTITY
with Journal(Path(sys.argv[1])) as journal:
    journal.append(SweepOpened(IDENTITY, {}))
    for block in range(10**6):
        journal.append(BlockSuggested(block, {"units": block}, 1.0))
        print(block, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "50":
            pass
        with pytest.raises(Locked, match=f"pid {process.pid} on "):
            Journal(tmp_path)
        process.send_signal(signal.SIGKILL)
        acknowledged = [int(line) for line in process.stdout]
    last = max([50, *acknowledged])
    with Journal(tmp_path) as opened:  # the lock went with its holder
        assert opened.state is not None
        blocks = list(opened.state.blocks)
    assert blocks[: last + 1] == list(range(last + 1))
    assert len(blocks) <= last + 2


def test_the_state_has_each_block_and_trial_once_at_its_last_position() -> None:
    retried = finished(1, attempt=2, ended_s=2e9)
    state = replay((*RECORDS, TrialFinished(retried), BlockSuggested(0, {"units": 1}, 4.0)))
    assert state is not None
    assert list(state.blocks) == [1, 0]
    one = finished(0, metrics={"loss": 0.1 + 0.2, "bad": float("inf")})
    assert list(state.finished.values()) == [one, finished(1, XLA), retried]
    blocks = [Block(1, finished(1).config), Block(0, {"units": 1})]
    assert [*state.order.values()] == [blocks[0], one, finished(1, XLA), retried, blocks[1]]
    assert state.ended == SessionEnded(9.0, "stopped")
    state.add(RECORDS[1])
    assert state.ended is None


def test_a_lost_journal_is_rebuilt_from_trials(tmp_path: Path) -> None:
    trials = [finished(3), finished(0), finished(3, repeat=1)]
    write(tmp_path, (RECORDS[0], *resume.rebuild(trials)))
    state = journal.read(tmp_path)
    assert state is not None
    assert list(state.blocks) == [0, 3]
    assert list(state.finished.values()) == [finished(0), finished(3), replace(trials[2])]
