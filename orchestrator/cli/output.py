"""Results: to stdout or a file; and the log that takes what libraries print."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli.messages import discard, show, show_progress, unwritable, wants_colour
from orchestrator.storage.private_files import open_private, write_named

if TYPE_CHECKING:
    from rich.console import Console

    from orchestrator.report.document import Document


def write_output(content: bytes, output: Path | None) -> None:
    """Write to a file, or to stdout; refuse if it cannot be written."""
    if output is None:
        show(content)
        return
    try:
        write_named(output, content)
    except OSError as error:
        raise unwritable(output, error) from error
    show_progress(f"wrote {output}")


def write(content: Document | Any, output: Path | None = None, *, markdown: bool = False) -> None:
    """Write a document as text (or Markdown), and other data as JSON, to a file or to stdout."""
    from orchestrator.report.document import Document
    from orchestrator.report.formats.text import to_markdown, to_text

    if not isinstance(content, Document):
        text = f"{json.dumps(content, indent=2)}\n"
    elif markdown:
        text = to_markdown(content)
    else:
        text = to_text(content, width(), colour=output is None and wants_colour())
    write_output(text.encode(errors="replace"), output)


def width() -> int:
    """Return the columns of the terminal, 100 where there is none; within 60 and 160."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


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
    descriptor = open_private(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    logger, handler = logging.getLogger("rnnsweep"), logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        with _Terminal(os.fdopen(os.dup(kept[2]), "wb"), encoding="utf-8") as terminal:
            for number in kept:
                os.dup2(descriptor, number)
            # Messages quote files, arms and errors of others: never markup.
            yield Console(file=terminal, highlight=False, markup=False, emoji=False)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(descriptor)
