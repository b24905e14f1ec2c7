"""Commands to a running trial, read from the same lines as the requests.

A line that is not a command is the next request: the trial fails, and the request stays queued.
A command whose trial has already failed is dropped.
"""

from __future__ import annotations

import sys

from workloads.failures import BadRequest
from workloads.protocol import Command, ProtocolError, decode_command, is_command
from workloads.trainer.channel import LineQueue

_EXPECTED = (
    'measure timing: expected a line such as {"command": "slice"} or {"command": "finish"} on'
    " standard input"
)


class CommandReader:
    """Reader of the commands among the lines of a trainer's standard input."""

    def __init__(self, lines: LineQueue) -> None:
        self._lines = lines
        self._had_commands = False

    def expect_commands(self) -> None:
        """Note that a trial takes commands: late ones may follow its end."""
        self._had_commands = True

    def next(self) -> Command:
        """Wait for the next command.

        Raises:
            BadRequest: standard input has ended, or its next line is not a command.
        """
        line = next(self._lines, None)
        if line is None:
            raise BadRequest(f"{_EXPECTED}; it ended: send at least one slice, and finish")
        if not is_command(line):
            self._lines.put_back(line)
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
