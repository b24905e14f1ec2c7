"""Whose words reach the terminal: ours. Everybody else's go to a log file."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console


class _Terminal(io.TextIOWrapper):
    """Where messages go as long as somebody reads them (`2>&1 | head`); a sweep goes on alone."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            self._go_dark()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            self._go_dark()

    def _go_dark(self) -> None:
        """What is still buffered goes nowhere too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[Console]:
    """Send what this process and its children write to `log`; the console still reaches stderr.

    The file descriptors are changed, not only Python's streams: Ray's and TensorFlow's native
    code writes to them directly. The log's folder must be there.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        with _Terminal(os.fdopen(os.dup(kept[2]), "wb"), encoding="utf-8") as terminal:
            for number in kept:
                os.dup2(descriptor, number)
            # What is printed names files, arms and errors: text of others, never markup.
            yield Console(file=terminal, soft_wrap=True, highlight=False, markup=False, emoji=False)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(descriptor)
