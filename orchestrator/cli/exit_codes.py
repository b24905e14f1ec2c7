"""How a command ends: exit codes, refusals without a traceback, and text that nobody may read."""

# ruff: noqa: PLC0415

from __future__ import annotations

import functools
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ParamSpec

import click

from orchestrator.core.errors import Refusal

COMPLETE, WITH_FAILURES, REFUSED, STOPPED = 0, 1, 2, 3
"""Exit codes."""

_Parameters = ParamSpec("_Parameters")


class _Refused(click.ClickException):
    """What the user has to change, without a traceback."""

    exit_code = REFUSED

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it, if anybody still reads."""
        show(f"Error: {self.format_message()}\n", err=True)


class Commands(click.Group):
    """All commands; what click prints by itself (`--help`, `--version`) ends as theirs does."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; the commands' own errors do not get here."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            _leave(1)
            show(f"Error: {unwritable('stdout', error)}\n", err=True)
            sys.exit(REFUSED)


def refusing(command: Callable[_Parameters, int | None]) -> Callable[_Parameters, None]:
    """Turn what a user can act on into a message and exit code 2; exit with the command's code."""

    @functools.wraps(command)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except BrokenPipeError:  # the reader of a pipe has seen enough
            _leave(1)
            code = COMPLETE
        except KeyboardInterrupt:
            show("Stopped.\n", err=True)
            code = STOPPED
        except Exception as error:
            if isinstance(error, refusals()):
                raise _Refused(str(error)) from error
            show(traceback.format_exc(), err=True)  # Python's exit code for it has a meaning here
            code = REFUSED
        _leave_what_waits(code or COMPLETE)
        raise SystemExit(code or COMPLETE)

    return wrapped


def _leave_what_waits(code: int) -> None:
    """End the process at once where threads wait for ever, for which Python would wait as well."""
    from orchestrator.cluster.connection import was_left_in_silence

    if was_left_in_silence():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def refusals() -> tuple[type[Exception], ...]:
    """Errors whose message tells a user what to do."""
    from orchestrator.analysis.pairing.baseline import BaselineError
    from orchestrator.cluster.connection import ClusterError
    from orchestrator.spec import SpecError
    from orchestrator.storage.journal import JournalError
    from orchestrator.storage.tracking.errors import (
        LeaseHeld,
        NotRecorded,
        SweepNotFound,
        TrackingError,
    )
    from workloads.failures import DataError

    return (
        Refusal,
        SpecError,
        BaselineError,
        ClusterError,
        DataError,
        JournalError,
        LeaseHeld,
        NotRecorded,
        SweepNotFound,
        TrackingError,
    )


def show(text: str | bytes, *, err: bool = False) -> None:
    """Print; a reader who has seen enough (`| head`) changes nothing about how it ends.

    Raises:
        Refusal: stdout cannot be written, as on a full disk.
    """
    try:
        click.echo(text, nl=False, err=err)
    except BrokenPipeError:
        _leave(2 if err else 1)
    except OSError as error:
        _leave(2 if err else 1)  # what waits in the buffer is lost as well
        if not err:
            raise Refusal(unwritable("stdout", error)) from error


def _leave(stream: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def unwritable(path: Path | str, error: OSError) -> str:
    """What to say of a place that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return f"{path}: expected a place that can be written, received: {reason}"


def width() -> int:
    """The terminal's columns, 100 elsewhere; never so few that a table cannot stand."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))
