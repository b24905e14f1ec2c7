"""The two pipes of a trainer: requests in, events out, and nothing else in either.

A workload may print, and C libraries write to file descriptor 1 as they please: the real pipes
are moved out of their way, 1 becomes standard error, and 0 becomes empty.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator

from workloads.protocol import Event, encode


class Channel:
    """Takes standard input and output away from the rest of the process."""

    def __init__(self) -> None:
        self._requests, self._events = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        self._writing = threading.Lock()  # a workload may report from threads of its own

    def emit(self, event: Event) -> None:
        """Write one event line, whole, at once."""
        line = memoryview((encode(event) + "\n").encode())
        with self._writing:
            try:
                while line:
                    line = line[os.write(self._events, line) :]
            except BrokenPipeError:
                os._exit(1)  # nobody listens any more

    def lines(self, at_end: Callable[[], None]) -> LineQueue:
        """Lines as they come, read on a thread, so that their end is noticed at any time.

        Args:
            at_end: called on that thread as soon as there are no more lines to come.
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
    """Lines that come, taken one by one; a line can be put back for whoever asks next."""

    def __init__(self) -> None:
        self._coming: queue.Queue[str | None] = queue.Queue()
        self._back: list[str] = []
        self._ended = False

    def put(self, line: str | None) -> None:
        """A line has come; None: there will be no more."""
        self._coming.put(line)

    def put_back(self, line: str) -> None:
        """Give back a line that is somebody else's."""
        self._back.append(line)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Wait for the next line."""
        if self._back:
            return self._back.pop()
        line = None if self._ended else self._coming.get()
        if line is None:
            self._ended = True
            raise StopIteration
        return line
