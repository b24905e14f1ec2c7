"""`rnnsweep stop` for a sweep that runs on this machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path

import psutil

from orchestrator.cli.exit_codes import COMPLETE, show
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.lock import FILE_NAME, holder

_HOLDER = re.compile(r"pid (\d+) on (.+)")
_WAIT_S, _POLL_S = 90.0, 0.2


def stop(home: Path, sweep: str) -> int:
    """Ask the driver of a sweep to stop, as Ctrl-C does in its own terminal, and wait for it.

    Raises:
        Refusal: nobody runs it, or not from this machine.
    """
    folder = SweepFolder(home, sweep).path
    who = holder(folder)
    if who is None:
        raise Refusal(
            f"sweep {sweep!r} is not running in {home}. One on a cluster is stopped with --address"
        )
    known = _HOLDER.fullmatch(who)
    if known is None or known[2] != socket.gethostname() or not _has_open(int(known[1]), folder):
        raise Refusal(f"sweep {sweep!r}: expected a driver on this machine, but {who} runs it")
    os.kill(int(known[1]), signal.SIGTERM)
    show(f"Stopping {who}: it records what is done\n", err=True)
    deadline_s = time.monotonic() + _WAIT_S
    while holder(folder) == who:
        if time.monotonic() > deadline_s:
            raise Refusal(f"sweep {sweep!r}: {who} has not stopped within {_WAIT_S:.0f} s")
        time.sleep(_POLL_S)
    show(f"{sweep}: stopped; the same run command goes on\n", err=True)
    return COMPLETE


def _has_open(pid: int, folder: Path) -> bool:
    """Whether this process is the one that holds the lock: a container's may have the same id."""
    try:
        files = psutil.Process(pid).open_files()
    except psutil.Error:
        return False
    return any(Path(each.path) == folder / FILE_NAME for each in files)
