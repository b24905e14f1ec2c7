"""Temporary folders of a driver: private, with short names, and removed once it has ended."""

import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.cluster import temporary_folders
from orchestrator.storage.lock import Owner, write_owner


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder that may have temporary files."""
    monkeypatch.setattr(temporary_folders, "_parents", lambda: iter([tmp_path]))
    monkeypatch.setattr(temporary_folders, "_LONGEST", len(os.fsencode(tmp_path)))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_folders_of_drivers_that_were_killed_are_removed(parent: Path) -> None:
    names = ("rnn-ray-killed", "rnnsweep-tune-killed", "rnnsweep-tune-alive", "rnn-ray-new")
    ray, tune, alive, new = (parent / name for name in names)
    half_marked = parent / "rnn-ray-half-marked"
    for folder in (ray, tune, alive, new, half_marked):
        folder.mkdir()
    (half_marked / temporary_folders._MARK).touch()
    temporary_folders.mark(alive)
    for folder in (ray, tune):
        killed = dataclasses.replace(Owner.here(), pid=2**22 + 1)
        write_owner(folder / temporary_folders._MARK, killed)
    temporary_folders.remove_leftovers()
    assert {path.name for path in parent.iterdir()} == {alive.name, new.name, half_marked.name}
    for folder in (new, half_marked):  # killed before it was marked
        long_ago_s = time.time() - 2 * temporary_folders._UNMARKED_S
        os.utime(folder, (long_ago_s, long_ago_s))
    temporary_folders.remove_leftovers()
    assert {path.name for path in parent.iterdir()} == {alive.name}


def test_agents_that_a_killed_driver_left_are_ended(parent: Path) -> None:
    session, other = parent / "rnn-ray-killed", parent / "other"
    for folder in (session, other):
        folder.mkdir()
    gone = dataclasses.replace(Owner.here(), pid=2**22 + 1)
    write_owner(session / temporary_folders._MARK, gone)
    title = ["ray::DashboardAgent", "60"]
    with (
        (session / "agent.log").open("w") as log,
        (other / "agent.log").open("w") as other_log,
        subprocess.Popen(title, executable="sleep", stdout=log) as agent,
        subprocess.Popen(["sleep", "60"], stdout=log) as of_the_user,
        subprocess.Popen(title, executable="sleep", stdout=other_log) as of_another_driver,
    ):
        temporary_folders.remove_leftovers()
        assert agent.wait(30) == -signal.SIGKILL
        for process in (of_the_user, of_another_driver):
            assert process.poll() is None
            process.kill()
    assert not session.exists()


@pytest.mark.timeout(120)
def test_a_named_pipe_among_leftovers_holds_nobody_up(parent: Path) -> None:
    session = parent / "rnn-ray-1"
    session.mkdir()
    os.mkfifo(session / temporary_folders._MARK)
    temporary_folders.remove_leftovers()
    assert session.is_dir()


def test_a_folder_in_which_others_can_rename_is_not_used(parent: Path) -> None:
    parent.chmod(0o777)
    with pytest.raises(temporary_folders.NoTemporaryFolder, match="lacks the sticky bit"):
        temporary_folders.ray_folder().__enter__()
    parent.chmod(0o1777)
    with temporary_folders.ray_folder() as folder:
        assert folder.is_dir()


def test_a_folder_that_is_too_long_for_sockets_is_not_used(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporary_folders, "_LONGEST", len(os.fsencode(parent)) - 1)
    with pytest.raises(temporary_folders.NoTemporaryFolder, match="has a name of more than"):
        temporary_folders.ray_folder().__enter__()
