"""Whose words reach the terminal: ours. Everybody else's go to a log file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console


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
        with os.fdopen(os.dup(kept[2]), "w", encoding="utf-8") as terminal:
            for number in kept:
                os.dup2(descriptor, number)
            yield Console(file=terminal, soft_wrap=True, highlight=False)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(descriptor)
