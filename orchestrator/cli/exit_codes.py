"""How a command ends: exit codes, and reports of bugs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator import __version__
from orchestrator.cli.messages import show
from orchestrator.core.errors import MachineFull, Refusal, refusal_of
from workloads.failures import DataError

if TYPE_CHECKING:
    from orchestrator.core.trial import FinishedTrial

COMPLETE, WITH_FAILURES, REFUSED, EXIT_STOPPED, INTERNAL_ERROR = 0, 1, 2, 3, 70
"""Exit codes; the last is EX_SOFTWARE of sysexits.h."""

EXIT_CODES_HELP = """
\b
Exit codes:
   0  complete
   1  complete, but a trial or a check failed (--fail-on, doctor)
   2  refused: the spec or the command is wrong; nothing was run
   3  stopped, a server does not answer, or a disk is full; resume with the same command
  70  internal error: a bug in rnnsweep
"""

REFUSALS = (Refusal, DataError)
"""The errors that a user can act on."""


def as_refusal(error: Exception) -> Exception:
    """Return an error of the machine as a refusal, if it is one; else the error itself."""
    if isinstance(error, MemoryError):
        return MachineFull(
            "this machine has no memory left. Make room, or raise the limit of this process"
            " (ulimit -v), and run the same command again"
        )
    return (refusal_of(error) or error) if isinstance(error, OSError) else error


def code_of_refusal(error: Exception) -> int:
    """Return the exit code of one of `REFUSALS`."""
    return EXIT_STOPPED if isinstance(error, Refusal) and error.is_away else REFUSED


def code_of(trials: Iterable[FinishedTrial]) -> int:
    """Return the exit code of a complete sweep with these trials; a pruned one is no failure."""
    failed = any(trial.status in ("failed", "wrong_kernel") for trial in trials)
    return WITH_FAILURES if failed else COMPLETE


def internal_error(error: Exception, log: Path | None = None) -> int:
    """Keep the traceback of a bug in the log, or a new file; ask for a report, and return 70."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    kept = _keep_traceback(error, log)
    show(f"Error: internal error, {text}. Please report this bug, with {kept}\n", err=True)
    return INTERNAL_ERROR


def _keep_traceback(error: Exception, log: Path | None) -> str:
    """Write the traceback; return where it is, or itself where no file can be written."""
    lines = [
        f"rnnsweep {__version__}, Python {sys.version.split()[0]}, {' '.join(sys.argv[1:2])}\n",
        *traceback.format_exception(error),
    ]
    try:
        path = log
        if path is None:
            number, name = tempfile.mkstemp(prefix="rnnsweep-error-", suffix=".txt")
            os.close(number)
            path = Path(name)
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    except OSError:
        return "this traceback:\n" + "".join(lines).rstrip()
    return f"the traceback {'in' if log is None else 'at the end of'} {path}"


@contextlib.contextmanager
def held_back(*signals: signal.Signals) -> Iterator[None]:
    """Let these signals wait for the end of the block; the first one that came is handled there."""
    came = list[int]()

    def note(number: int, _: object) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """Handle these signals like Ctrl-C within the block, so that child processes are ended."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
