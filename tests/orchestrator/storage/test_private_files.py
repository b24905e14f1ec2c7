"""What another user of the machine put where this user's files go is neither read nor written."""

import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.output import quiet
from orchestrator.storage.home import STORE_NAMES, HomeUnusable, SweepFolder
from orchestrator.storage.journal import JOURNAL_FILE, Journal, read, read_running
from orchestrator.storage.lock import LOCK_FILE, Owner, holder, take_lock
from orchestrator.storage.log_rotation import rotate_log
from orchestrator.storage.private_files import NotOurs, open_private, read_private, write_named
from orchestrator.storage.tracking.mlflow.store import MlflowStore
from orchestrator.storage.tracking.tracking_errors import TrackingError

NOBODY = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes another user's files")


def make_link(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_bytes(b"precious")
    path.symlink_to(victim)


def make_file_of_another_user(path: Path) -> None:
    path.write_bytes(b"{}")
    os.chown(path, NOBODY, NOBODY)


FOREIGN: dict[str, Callable[[Path], None]] = {
    "link": make_link,
    "named pipe": os.mkfifo,
    "folder": Path.mkdir,
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC])
def test_only_regular_files_are_opened(
    make: Callable[[Path], None], flags: int, tmp_path: Path
) -> None:
    make(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        open_private(tmp_path / "file", flags)
    if make is make_link:
        assert (tmp_path / "victim").read_bytes() == b"precious"


@needs_root
def test_a_file_of_another_user_is_not_opened(tmp_path: Path) -> None:
    make_file_of_another_user(tmp_path / "file")
    with pytest.raises(NotOurs, match="another user"):
        open_private(tmp_path / "file", os.O_RDONLY)


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_private(tmp_path / "file", most_bytes=5) == b"12345"
    with pytest.raises(NotOurs, match="larger than 4 bytes"):
        read_private(tmp_path / "file", most_bytes=4)


def test_a_named_file_is_written_through_this_users_links(tmp_path: Path) -> None:
    make_link(tmp_path / "report.html")
    (tmp_path / "latest.html").symlink_to("report.html")
    write_named(tmp_path / "latest.html", b"report")
    assert (tmp_path / "victim").read_bytes() == b"report"
    assert (tmp_path / "latest.html").is_symlink()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        write_named(tmp_path / "loop", b"report")


@needs_root
@pytest.mark.timeout(120)
@pytest.mark.parametrize("leads_to", ["victim", "missing", None])
def test_a_named_file_is_not_written_through_another_users_link_or_pipe(
    leads_to: str | None, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    theirs, mine = tmp_path / "report.html", tmp_path / "latest.html"
    os.mkfifo(theirs) if leads_to is None else theirs.symlink_to(leads_to)
    os.chown(theirs, NOBODY, NOBODY, follow_symlinks=False)
    mine.symlink_to("report.html")
    for path in (theirs, mine):
        with pytest.raises(PermissionError, match="another user's"):
            write_named(path, b"report")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "missing").exists()


@pytest.mark.timeout(120)
def test_a_named_pipe_as_a_lock_has_no_holder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK_FILE)
    assert holder(tmp_path) is None


@needs_root
def test_a_lock_of_another_user_names_no_process_of_this_one(tmp_path: Path) -> None:
    descriptor = take_lock(tmp_path)
    assert holder(tmp_path) == Owner.here()
    os.fchown(descriptor, NOBODY, NOBODY)
    held_by = holder(tmp_path)
    assert held_by is not None and held_by.pid != os.getpid()
    os.close(descriptor)


@pytest.mark.parametrize("name", [LOCK_FILE, JOURNAL_FILE])
def test_links_in_a_sweeps_folder_are_not_followed(name: str, tmp_path: Path) -> None:
    make_link(tmp_path / name)
    with pytest.raises(NotOurs, match="symbolic link"):
        Journal(tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_links_in_the_place_of_logs_are_not_followed(tmp_path: Path) -> None:
    make_link(tmp_path / "run.log")
    with pytest.raises(NotOurs, match="symbolic link"), quiet(tmp_path / "run.log"):
        pass
    (tmp_path / "large.log").write_bytes(b"six...")
    (tmp_path / "large.log.1").symlink_to(tmp_path / "victim")
    assert rotate_log(tmp_path / "large.log", limit=5)
    assert (tmp_path / "victim").read_bytes() == b"precious"


@pytest.mark.timeout(120)
def test_named_pipes_in_the_place_of_what_is_shown_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / JOURNAL_FILE)
    os.mkfifo(tmp_path / "running.json")
    with pytest.raises(NotOurs, match="not a regular file"):
        read(tmp_path)
    assert read_running(tmp_path, 0.0) == []


def test_a_link_as_the_list_of_running_trials_is_not_followed(tmp_path: Path) -> None:
    make_link(tmp_path / "running.json.new")
    with Journal(tmp_path) as journal:
        journal.show_running([(1.0, "block 0")])
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_a_link_as_the_lock_of_a_store_is_not_followed(tmp_path: Path) -> None:
    make_link(tmp_path / "mlflow.db.lock")
    with pytest.raises(TrackingError, match=r"mlflow\.db\.lock"):
        MlflowStore(f"sqlite:///{tmp_path}/mlflow.db", home=tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"precious"


@needs_root
@pytest.mark.parametrize("place", ["", "sweeps", "sweeps/mine"])
def test_a_home_of_another_user_is_refused(place: str, tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "home", "mine")
    folder.make()
    os.chown(folder.home / place, NOBODY, NOBODY)
    with pytest.raises(HomeUnusable, match="another user"):
        folder.make()


@needs_root
def test_nothing_is_made_in_another_users_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, NOBODY, NOBODY)
    with pytest.raises(HomeUnusable, match="another user"):
        SweepFolder(tmp_path, "mine").make()
    assert not [*tmp_path.iterdir()]


@needs_root
@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_store_that_another_user_put_into_a_home_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / name).symlink_to("mine")
    SweepFolder(tmp_path, "mine").make()
    os.chown(tmp_path / name, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(HomeUnusable, match="belongs to another user"):
        SweepFolder(tmp_path, "mine").make()


def test_a_sweep_does_not_start_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Namespace(free=2**20))
    with pytest.raises(HomeUnusable, match="MiB free"):
        SweepFolder(tmp_path / "home", "quickstart").make()
