"""`rnnsweep stop` for a sweep that runs on this machine."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import psutil

from orchestrator.cli.exit_codes import COMPLETE
from orchestrator.cli.output import show
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.lock import FILE_NAME, holder

_WAIT_S, _POLL_S = 90.0, 0.2


def stop(home: Path, sweep: str) -> int:
    """Ask the driver of a sweep to stop, as Ctrl-C does in its own terminal, and wait for its end.

    Raises:
        Refusal: no process runs the sweep, or one on another machine does.
    """
    folder = SweepFolder(home, sweep).path
    driver = holder(folder)
    if driver is None:
        raise Refusal(
            f"sweep {sweep!r} is not running in {home}. To stop one on a cluster, add --address"
        )
    is_here = driver.host == socket.gethostname()
    if not is_here or not _has_lock(driver.pid, folder):
        raise Refusal(f"sweep {sweep!r}: expected a driver on this machine, but {driver} runs it")
    os.kill(driver.pid, signal.SIGTERM)
    show(f"Stopping {driver}: finished trials are being recorded\n", err=True)
    deadline_s = time.monotonic() + _WAIT_S
    while holder(folder) == driver:
        if time.monotonic() > deadline_s:
            raise Refusal(f"sweep {sweep!r}: {driver} has not stopped within {_WAIT_S:.0f} s")
        time.sleep(_POLL_S)
    show(f"{sweep}: stopped. Resume with the same command\n", err=True)
    return COMPLETE


def _has_lock(pid: int, folder: Path) -> bool:
    """Return whether this process has the lock open: ids of a container's processes may collide."""
    try:
        files = psutil.Process(pid).open_files()
    except psutil.Error:
        return False
    return any(Path(file.path) == folder / FILE_NAME for file in files)
