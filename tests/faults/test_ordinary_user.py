"""An ordinary user: no stop leaves a process, and nobody else gets in."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.commands import wait_for
from tests.faults.conftest import Faults
from tests.integration.mixed import HELPER
from tests.integration.sweeping import Home, new_home
from tests.ordinary_user import OrdinaryUser

pytestmark = pytest.mark.full

NAME = "helped"
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPS = {
    "a request": (1, False),
    "two requests": (2, False),
    "SIGKILL": (0, True),
    "a request and SIGKILL": (1, True),  # as Ray stops a job
}
"""How many signals request a stop, and whether SIGKILL ends the sweep."""


@pytest.fixture
def home(ordinary_user: OrdinaryUser, own_folder: Path) -> Home:
    return new_home(own_folder, user=ordinary_user)


@pytest.mark.parametrize("stop", STOPS)
def test_another_user_does_not_enter_a_run_and_no_stop_leaves_processes_of_its_workload(
    home: Home, ordinary_user: OrdinaryUser, other_user: OrdinaryUser, faults: Faults, stop: str
) -> None:
    draw, _ = faults(1, 1)
    requests, is_killed = STOPS[stop]
    spec = home.spec(NAME, implementations=["python/helped", "python/a"])
    with shared_folder() as temporary:
        traps = [temporary / f"{prefix}trap" for prefix in ("rnn-ray-", "rnnsweep-tune-")]
        for trap in traps:
            by(other_user, f"mkdir {trap} && chmod 777 {trap} && mkfifo {trap}/.rnnsweep-owner")
        with home.running("run", spec, TMPDIR=str(temporary)) as command:
            wait_for(lambda: home.waiting.exists() or not command.running)
            assert command.running, command.printed()
            time.sleep(35)  # Ray opens its folders again after half a minute
            expect_no_way_in(temporary, ordinary_user, other_user)
            wait_for(lambda: len(running_helpers(ordinary_user)) == 2)  # one starts in a daemon
            helpers = running_helpers(ordinary_user)
            for _ in range(requests):
                command.send_signal(draw.choice(REQUESTS))
                time.sleep(0.5)
            if is_killed:
                command.kill()
            command.done()
        assert all(trap.is_dir() for trap in traps)
        try:
            wait_for(
                lambda: not running_helpers(ordinary_user),
                describe=lambda: running_helpers(ordinary_user),
            )
            home.expect_nothing_running()
        finally:
            for helper in helpers:
                with contextlib.suppress(psutil.Error):
                    helper.kill()


def expect_no_way_in(temporary: Path, user: OrdinaryUser, other_user: OrdinaryUser) -> None:
    """Expect another user to neither list, fill nor move the folders of Ray's sockets."""
    sockets = [
        folder
        for pattern in ("*/*/sockets", "*/*/*/sockets")
        for folder in temporary.glob(pattern)
        if folder.stat().st_uid == user.uid
    ]
    assert sockets
    for folder in (parent for found in sockets for parent in (found, *found.parents)):
        if folder.stat().st_uid == user.uid:
            for attack in (f"ls {folder}", f"touch {folder}/x", f"mv {folder} {folder}2"):
                assert by(other_user, attack) != 0, attack


def running_helpers(user: OrdinaryUser) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "uids"])
        if process.info["cmdline"] == list(HELPER) and process.info["uids"].real == user.uid
    ]


@contextlib.contextmanager
def shared_folder() -> Iterator[Path]:
    """Yield a folder for all users, as `/tmp`, without files of other tests; its path is short."""
    with tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def test_a_home_that_another_user_prepared_is_refused(
    home: Home, own_folder: Path, other_user: OrdinaryUser
) -> None:
    own_folder.chmod(0o1777)
    spec = home.spec(NAME)
    shared, theirs = own_folder / "shared", own_folder / "theirs"
    by(other_user, f"mkdir {theirs} {shared} && chmod 777 {theirs} {shared}")
    home.run("run", spec, RNNSWEEP_HOME=str(theirs)).refused("belongs to another user")
    by(other_user, f"mkdir -p {shared}/sweeps/{NAME}; chmod -R 777 {shared}")
    home.run("run", spec, RNNSWEEP_HOME=str(shared)).refused("belongs to another user")
    mine = own_folder / "mine"
    mine.mkdir()
    os.chown(mine, home.path.stat().st_uid, -1)
    mine.chmod(0o777)
    by(other_user, f"mkdir -p {mine}/sweeps && chmod 777 {mine}/sweeps")
    home.run("run", spec, RNNSWEEP_HOME=str(mine)).refused("belongs to another user")
    victim = own_folder / "victim"
    victim.write_text("precious")
    os.chown(victim, home.path.stat().st_uid, -1)
    shutil.rmtree(mine / "sweeps")
    by(other_user, f"ln -s {victim} {mine}/mlflow.db.lock; ln -s {victim} {mine}/mlflow.db")
    assert home.run("run", spec, RNNSWEEP_HOME=str(mine)).code != 0
    assert victim.read_text() == "precious"


def by(user: OrdinaryUser, words: str) -> int:
    """Run a shell command as a user, and return its exit status."""
    done = subprocess.run([*user.foreign, "sh", "-c", words], capture_output=True, check=False)
    return done.returncode
