"""The journal: what was acknowledged is there, whatever happened since."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.formats import WrittenBy
from orchestrator.storage import journal
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.lock import Locked
from tests.building.arms import PORTABLE, XLA
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial

RECORDS: tuple[journal.Record, ...] = (
    journal.SweepOpened(IDENTITY, {"name": "quickstart", "arms": {"hardware": ["cpu"]}}),
    journal.SessionStarted(1.5, 42, "host", "0.1.0", 4, 1, [PORTABLE], skipped_blocks=[2]),
    journal.BlockSuggested(0, {"units": 32, "rate": 1.0, "xla": True, "cell": "größe\n"}, 2.5),
    journal.BlockSuggested(1, build_full_trial(1).config, 3.0),
    journal.TrialFinished(build_full_trial(0, metrics={"loss": 0.1 + 0.2, "bad": float("inf")})),
    journal.RoundFinished([build_failed_trial(1), build_full_trial(1, XLA)]),
    journal.SessionEnded(9.0, "stopped"),
)


def write(folder: Path, records: tuple[journal.Record, ...] = RECORDS) -> bytes:
    with journal.Journal(folder) as opened:
        for record in records:
            opened.append(record)
        assert opened.state == journal.replay(records)
    return (folder / journal.JOURNAL_FILE).read_bytes()


class Disk:
    """A model of the disk: the content that files, and the names that folders, had when synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        inode, path = os.fstat(descriptor).st_ino, Path(f"/proc/self/fd/{descriptor}")
        if path.is_dir():
            self._names[inode] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._contents[inode] = path.read_bytes()

    def after_power_cut(self, folder: Path) -> Path:
        """Return a folder that is as this one would be if the power failed now."""
        left = folder.with_name("after_power_cut")
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        for name, inode in self._names.get(folder.stat().st_ino, {}).items():
            (left / name).write_bytes(self._contents.get(inode, b""))
        return left


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_an_appended_record_survives_a_power_cut(tmp_path: Path, disk: Disk) -> None:
    folder = tmp_path / "1"
    with journal.Journal(folder) as opened:
        for number, record in enumerate(RECORDS, 1):
            opened.append(record)
            left = disk.after_power_cut(folder)
            assert journal.read(left) == journal.replay(RECORDS[:number])


def test_one_writer_at_a_time_and_what_it_writes_is_read_back_with_its_types(
    tmp_path: Path,
) -> None:
    assert journal.read(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    folder = SweepFolder(tmp_path / "home", "mine")
    folder.make()
    whole = write(tmp_path)
    for private in (folder.home, tmp_path / journal.JOURNAL_FILE):
        assert private.stat().st_mode & 0o077 == 0
    # A crash of the machine can leave a last line of the right length and no content.
    (tmp_path / journal.JOURNAL_FILE).write_bytes(whole + b"\0" * 40 + b"\n")
    state = journal.read(tmp_path)
    assert state is not None and state == journal.replay(RECORDS)
    assert [type(value) for value in state.blocks[0].config.values()] == [int, float, bool, str]
    with journal.Journal(tmp_path), pytest.raises(Locked, match=f"pid {os.getpid()} on "):
        journal.Journal(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_cut_at_any_byte_it_loses_at_most_the_last_record(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "whole" / journal.JOURNAL_FILE
    whole = path.read_bytes() if path.exists() else write(tmp_path / "whole")
    size = data.draw(st.integers(0, len(whole)))
    folder = tmp_path / "cut"
    folder.mkdir(exist_ok=True)
    (folder / journal.JOURNAL_FILE).write_bytes(whole[:size])

    acknowledged = RECORDS[: whole[:size].count(b"\n")]
    assert journal.read(folder) == journal.replay(acknowledged)
    with journal.Journal(folder) as opened:
        assert opened.state == journal.replay(acknowledged)
        if acknowledged:
            opened.append(RECORDS[-1])
    if acknowledged:
        assert journal.read(folder) == journal.replay((*acknowledged, RECORDS[-1]))


@pytest.mark.parametrize(
    ("line", "damage", "reason"),
    [
        pytest.param(
            3,
            '{"record":"block_suggested","block":3,"config":{},"at_s":1.0,"x":1}',
            "x",
            id="an unknown field",
        ),
        pytest.param(
            1,
            '{"record":"session_ended","at_s":9.0,"state":"stopped"}',
            "session_ended",
            id="another first record",
        ),
    ],
)
def test_damage_in_the_middle_is_reported_with_its_line(
    tmp_path: Path, line: int, damage: str, reason: str
) -> None:
    lines = write(tmp_path).splitlines()
    lines[line - 1] = journal._signed(damage.encode())
    path = tmp_path / journal.JOURNAL_FILE
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(journal.JournalError) as caught:
        journal.Journal(tmp_path)
    message = str(caught.value)
    assert f"{path}, line {line} is damaged" in message
    assert reason in message
    assert (f"sed -i {line}d " in message) == (line > 1)
    path.unlink()
    journal.Journal(tmp_path).close()  # the refused opening holds no lock


def raise_number(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make the present format a former one: the next one has other hosts. Return its number."""

    def next_line(line: dict[str, Any]) -> dict[str, Any]:
        return line | {"host": f"{line['host']}.lab"} if "host" in line else line

    former = journal.FORMAT
    raised = replace(former, number=former.number + 1, migrations={former.number: next_line})
    monkeypatch.setattr(journal, "FORMAT", raised)
    return former.number


def test_the_writer_replaces_a_journal_of_a_former_format_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    content = write(tmp_path / "1")
    number = raise_number(monkeypatch)
    read, path = journal.read(tmp_path / "1"), tmp_path / "1" / journal.JOURNAL_FILE
    assert path.read_bytes() == content, "reading changes nothing"
    with journal.Journal(tmp_path / "1") as opened:
        assert opened.state == read
        opened.append(journal.BlockSuggested(7, {"units": 7}, 3.0))
        left = disk.after_power_cut(tmp_path / "1")
    for folder in (tmp_path / "1", left):
        (kept,) = folder.glob(f"journal-format-{number}-*.jsonl")
        assert kept.read_bytes() == content
        first = json.loads((folder / journal.JOURNAL_FILE).read_bytes().partition(b"\n")[0])
        assert first["journal_version"] == number + 1
        state = journal.read(folder)
        assert state is not None and 7 in state.blocks
        assert [session.host for session in state.sessions] == ["host.lab"]
    with journal.Journal(tmp_path / "1"):
        assert len([*(tmp_path / "1").glob("journal-format-*")]) == 1


def test_a_journal_of_a_later_format_names_the_rnnsweep_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = raise_number(monkeypatch)
    opened = journal.SweepOpened(IDENTITY, {}, written_by=WrittenBy("9.9.9", "abc"))
    write(tmp_path, (opened, *RECORDS[1:]))
    monkeypatch.undo()
    for read in (journal.read, journal.Journal):
        with pytest.raises(journal.JournalError) as caught:
            read(tmp_path)
        text = str(caught.value)
        assert f"format {number + 1}, written by rnnsweep 9.9.9" in text


def test_a_changed_format_number_is_damage(tmp_path: Path) -> None:
    number, path = journal.FORMAT.number, tmp_path / journal.JOURNAL_FILE
    content = write(tmp_path)
    for changed in (b'"journal_version":%d' % (number + 1), b'"journal_versiom":%d' % number):
        path.write_bytes(content.replace(b'"journal_version":%d' % number, changed))
        assert path.read_bytes() != content
        with pytest.raises(journal.JournalError, match="line 1 is damaged"):
            journal.read(tmp_path)


def test_a_line_that_does_not_fit_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with journal.Journal(tmp_path) as opened:
        opened.append(RECORDS[0])
        monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
        with pytest.raises(OSError, match="disk full"):
            opened.append(RECORDS[1])
        monkeypatch.undo()
        opened.append(RECORDS[2])
        assert opened.state == journal.replay((RECORDS[0], RECORDS[2]))
    assert journal.read(tmp_path) == journal.replay((RECORDS[0], RECORDS[2]))


def test_a_session_that_starts_undoes_the_end_of_the_one_before() -> None:
    state = journal.replay(RECORDS)
    assert state is not None and state.ended == RECORDS[-1]
    state.add(RECORDS[1])
    assert state.ended is None
