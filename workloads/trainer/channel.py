"""The two pipes of a trainer: requests and commands in, events out, and nothing else in either.

A workload may print, and C libraries may write to file descriptor 1. The real pipes are therefore
moved to other descriptors; 1 becomes standard error, and 0 becomes empty.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator

from workloads.failures import BadRequest
from workloads.protocol import Command, Event, ProtocolError, decode_command, encode, is_command

_EXPECTED = (
    'measure timing: expected a line such as {"command": "slice"} or {"command": "finish"} on'
    " standard input"
)


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

    def lines(self, at_end: Callable[[], None]) -> Lines:
        """Return the received lines; a thread reads them, so that it can detect the end."""
        lines = Lines()

        def read() -> None:
            with os.fdopen(self._requests, encoding="utf-8", errors="replace") as source:
                for line in source:
                    if line.strip():
                        lines.received.put(line)
            at_end()
            lines.received.put(None)

        threading.Thread(target=read, name="requests", daemon=True).start()
        return lines


class Lines:
    """A blocking iterator over received lines: requests, and the commands to a running trial.

    A line that is not a command is the next request: the trial that waits for a command fails, and
    the request stays queued. A command whose trial has already failed is dropped.
    """

    def __init__(self) -> None:
        self.received: queue.Queue[str | None] = queue.Queue()
        self._returned: list[str] = []
        self._is_ended = self._had_commands = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Wait for the next line."""
        if self._returned:
            return self._returned.pop()
        line = None if self._is_ended else self.received.get()
        if line is None:
            self._is_ended = True
            raise StopIteration
        return line

    def expect_commands(self) -> None:
        """Note that a trial takes commands: late ones may follow its end."""
        self._had_commands = True

    def next_command(self) -> Command:
        """Wait for the next command.

        Raises:
            BadRequest: standard input has ended, or its next line is not a command.
        """
        line = next(self, None)
        if line is None:
            raise BadRequest(f"{_EXPECTED}; it ended: send at least one slice, and finish")
        if not is_command(line):
            self._returned.append(line)
            raise BadRequest(f"{_EXPECTED}; received {line[:200]!r}")
        try:
            return decode_command(line)
        except ProtocolError as error:
            raise BadRequest(f"measure timing: {error}") from None

    def drop_late_command(self, line: str) -> bool:
        """Return True for a command to a trial that has ended; report it on standard error."""
        is_late = self._had_commands and is_command(line)
        if is_late:
            print(f"dropped, its trial is over: {line.strip()}", file=sys.stderr)  # noqa: T201
        return is_late
