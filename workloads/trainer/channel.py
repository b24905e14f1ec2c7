"""The two pipes of a trainer: requests in, events out, and nothing else in either.

A workload may print, and C libraries may write to file descriptor 1. The real pipes are therefore
moved to other descriptors; 1 becomes standard error, and 0 becomes empty.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator

from workloads.protocol import Event, encode


class Channel:
    """Exclusive use of standard input and output, which the rest of the process loses."""

    def __init__(self) -> None:
        self._requests, self._events = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        self._writing = threading.Lock()  # a workload may report from threads of its own

    def emit(self, event: Event) -> None:
        """Write one complete event line."""
        line = memoryview((encode(event) + "\n").encode())
        with self._writing:
            try:
                while line:
                    line = line[os.write(self._events, line) :]
            except BrokenPipeError:
                os._exit(1)  # the reader is gone

    def lines(self, at_end: Callable[[], None]) -> LineQueue:
        """Return the queue of request lines; a thread reads them, so that it can detect the end.

        Args:
            at_end: called on that thread when standard input ends.
        """
        lines = LineQueue()

        def read() -> None:
            with os.fdopen(self._requests, encoding="utf-8", errors="replace") as source:
                for line in source:
                    if line.strip():
                        lines.put(line)
            at_end()
            lines.put(None)

        threading.Thread(target=read, name="requests", daemon=True).start()
        return lines


class LineQueue:
    """A blocking iterator over received lines; a line can be put back for the next reader."""

    def __init__(self) -> None:
        self._received: queue.Queue[str | None] = queue.Queue()
        self._returned: list[str] = []
        self._is_ended = False

    def put(self, line: str | None) -> None:
        """Add a received line; None marks the end."""
        self._received.put(line)

    def put_back(self, line: str) -> None:
        """Return a line that the next reader is to get."""
        self._returned.append(line)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Wait for the next line."""
        if self._returned:
            return self._returned.pop()
        line = None if self._is_ended else self._received.get()
        if line is None:
            self._is_ended = True
            raise StopIteration
        return line
