"""`rnnsweep stop` on the machine that a sweep runs on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.stop import stop
from orchestrator.core.errors import Refusal
from orchestrator.storage import lock
from orchestrator.storage.home import SweepFolder

DRIVER = """
import signal, sys, time
from pathlib import Path
from orchestrator.storage import lock

lock.take(Path(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("holds it", flush=True)
time.sleep(60)
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of the sweep `mine` until SIGTERM."""
    command = [sys.executable, "-c", DRIVER, str(SweepFolder(tmp_path, "mine").path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "holds it\n"
        yield process
        process.kill()


def test_the_driver_is_stopped(tmp_path: Path, driver: subprocess.Popen[str]) -> None:
    assert stop(tmp_path, "mine") == 0
    assert driver.wait(10) == 3
    assert lock.holder(SweepFolder(tmp_path, "mine").path) is None


def test_a_sweep_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="'mine' is not running in"):
        stop(tmp_path, "mine")


@pytest.mark.parametrize(("is_driver", "host"), [(True, "elsewhere"), (False, None), (None, None)])
def test_nobody_else_is_signalled(
    tmp_path: Path, driver: subprocess.Popen[str], is_driver: bool | None, host: str | None
) -> None:
    """Neither a driver of another machine, nor a process whose id a container's driver has."""
    holder = {"pid": driver.pid if is_driver else 1, "host": host or socket.gethostname()}
    text = "somebody" if is_driver is None else json.dumps(holder)
    (SweepFolder(tmp_path, "mine").path / lock.FILE_NAME).write_text(text)
    with pytest.raises(Refusal, match="expected a driver on this machine"):
        stop(tmp_path, "mine")
    assert driver.poll() is None
