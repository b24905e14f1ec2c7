"""Sweeps of this machine: their progress, read from their journals, and their end."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import psutil

from orchestrator.cli.output import show
from orchestrator.core.errors import Refusal
from orchestrator.core.text import duration
from orchestrator.core.trial import count_spared
from orchestrator.storage.home import HomeUnusable, SweepFolder
from orchestrator.storage.journal import JournalError, SweepState, read
from orchestrator.storage.lock import FILE_NAME, holder

_WAIT_S, _POLL_S = 90.0, 0.2


class NoSuchSweep(Refusal):
    """The home has no sweep of that name."""


def describe_sweeps(home: Path, name: str | None) -> str:
    """Return a paragraph for each sweep of the home, or for the one of that name.

    Raises:
        NoSuchSweep: there is none of that name.
        HomeUnusable: the home is not a folder.
        JournalError: the journal of the named sweep cannot be read.
    """
    if home.exists() and not home.is_dir():
        raise HomeUnusable(home, "not a directory")
    folder = home / "sweeps"
    entries = folder.iterdir() if folder.is_dir() else ()
    names = sorted(entry.name for entry in entries if entry.is_dir())
    if name is not None and name not in names:
        others = ", ".join(names) or "none"
        raise NoSuchSweep(
            f"no sweep {name!r} in {home}; it has {others}. Set RNNSWEEP_HOME to the home that "
            "has it"
        )
    if name is not None:
        return _describe(SweepFolder(home, name))
    if not names:
        return f"no sweeps in {home}\n"
    return "".join(_describe_if_readable(SweepFolder(home, sweep)) for sweep in names)


def _describe_if_readable(folder: SweepFolder) -> str:
    """Describe a sweep; one whose journal cannot be read does not hide the others."""
    try:
        return _describe(folder)
    except (JournalError, OSError) as error:
        return f"{folder.name}: cannot be read: {error}\n"


def _describe(folder: SweepFolder) -> str:
    state = read(folder.generation(folder.latest()))
    if state is None:
        return f"{folder.name}: not started\n"
    if not state.sessions:
        return f"{state.identity.label}: {_opening(folder)}\n"
    session = state.sessions[-1]
    finished = [done for done in state.finished.values() if session.includes(done.trial)]
    blocks = sum(session.has_block(index) for index in state.blocks)
    total = blocks if state.stop_decision else session.blocks - len(session.skipped_blocks)
    trials = total * session.repeats * len(session.arms)
    trials -= count_spared(finished, session.arms, session.repeats)
    outcomes = Counter(done.outcome.status for done in finished)
    counted = ", ".join(f"{number} {status}" for status, number in sorted(outcomes.items()))
    at_most = "at most " if session.least and not state.stop_decision else ""
    lines = [
        f"{state.identity.label}: {_activity(folder, state)}",
        f"  {len(finished)} of {at_most}{trials} trials ended ({counted or 'none yet'}), "
        f"{blocks} of {at_most}{total} blocks suggested",
    ]
    if state.stop_decision:
        lines.append(
            f"  enough after {state.stop_decision.blocks} blocks: {state.stop_decision.why}"
        )
    for done in finished:
        if done.outcome.failure is not None:
            failure = done.outcome.failure
            lines.append(
                f"  failed: block {done.trial.block}, {done.trial.arm}: {failure.reason}: "
                f"{failure.message}"
            )
    return "\n".join(lines) + "\n"


_RESUME = "resume with the same run command"


def _opening(folder: SweepFolder) -> str:
    """Describe a sweep that the store has and that has begun no trial."""
    driver = holder(folder.path)
    return f"starting ({driver})" if driver is not None else f"stopped before it began; {_RESUME}"


def _activity(folder: SweepFolder, state: SweepState) -> str:
    driver = holder(folder.path)
    if driver is not None:
        return f"running ({driver}), for {duration(time.time() - state.sessions[-1].at_s)}"
    if state.ended is None:
        return f"stopped abruptly; {_RESUME}"
    return state.ended.state


def stop(home: Path, sweep: str) -> None:
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


def _has_lock(pid: int, folder: Path) -> bool:
    """Return whether this process has the lock open: ids of a container's processes may collide."""
    try:
        files = psutil.Process(pid).open_files()
    except psutil.Error:
        return False
    return any(Path(file.path) == folder / FILE_NAME for file in files)
