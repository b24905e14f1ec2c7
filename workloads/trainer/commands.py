"""What whoever asked for a trial says in the middle of it: read from the lines that requests are.

A line that is no command is the next request: the trial fails, and the request stays for its turn.
A command that no trial waits for any more, because its trial has failed, is dropped.
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
    """The commands among the lines of a trainer's standard input."""

    def __init__(self, lines: LineQueue) -> None:
        self._lines = lines
        self._expected = False

    def expect(self) -> None:
        """A trial has begun that takes commands: those that come too late are its own."""
        self._expected = True

    def next(self) -> Command:
        """Wait for the next command.

        Raises:
            BadRequest: standard input has ended, or its next line is no command.
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

    def are_late(self, line: str) -> bool:
        """Whether a line is a command to a trial that is over; says so on standard error."""
        late = self._expected and is_command(line)
        if late:
            print(f"dropped, its trial is over: {line.strip()}", file=sys.stderr)  # noqa: T201
        return late
