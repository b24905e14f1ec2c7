"""Output of commands: stdout, stderr, and a log file for the output of libraries."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.core.errors import Refusal

if TYPE_CHECKING:
    from rich.console import Console


def show(text: str | bytes, *, err: bool = False) -> None:
    """Print text as it is; a reader that has closed the pipe (`| head`) is no error.

    Raises:
        Refusal: stdout cannot be written, as on a full disk.
    """
    try:
        click.echo(text, nl=False, err=err, color=None if err else wants_colour() or None)
    except BrokenPipeError:
        discard(2 if err else 1)
    except OSError as error:
        discard(2 if err else 1)  # the rest of the buffer is lost as well
        if not err:
            raise Refusal(unwritable("stdout", error)) from error


def discard(descriptor: int) -> None:
    """Send what is still buffered for this file descriptor, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def unwritable(path: Path | str, error: OSError) -> str:
    """Return the message for a place that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return f"{path}: expected a place that can be written, received: {reason}"


def put(content: bytes, output: Path | None) -> None:
    """Write to a file, or to stdout.

    Raises:
        Refusal: it cannot be written.
    """
    if output is None:
        show(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise Refusal(unwritable(output, error)) from error
    click.echo(f"wrote {output}", err=True)


def width() -> int:
    """Return the columns of the terminal, 100 where there is none; within 60 and 160."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


def wants_colour(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether text on stdout may have colours: on a terminal, unless NO_COLOR is set.

    FORCE_COLOR asks for colours in pipes too. NO_COLOR wins over it.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and environ.get("TERM") != "dumb"


class _Terminal(io.TextIOWrapper):
    """A stream for messages that drops them once its reader is gone (`2>&1 | head`)."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            discard(self.fileno())
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            discard(self.fileno())


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[Console]:
    """Send what this process and its children write to `log`; the console still reaches stderr.

    The logger `rnnsweep` writes to it as well, with times. The file descriptors are changed, not
    only Python's streams: Ray's and TensorFlow's native code writes to them directly. The folder of
    the log must exist.
    """
    from rich.console import Console

    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    logger, handler = logging.getLogger("rnnsweep"), logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with _Terminal(os.fdopen(os.dup(kept[2]), "wb"), encoding="utf-8") as terminal:
            for number in kept:
                os.dup2(descriptor, number)
            # Messages quote files, arms and errors of others: never markup.
            yield Console(file=terminal, soft_wrap=True, highlight=False, markup=False, emoji=False)
    finally:
        logger.removeHandler(handler)
        handler.close()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(descriptor)
