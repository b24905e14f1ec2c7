"""How a message names what its reader types: an option of a command, or an argument in Python."""

from collections.abc import Iterator
from contextlib import contextmanager

_commands = 0
"""How many commands run in this process: one, except for a command that runs another."""


@contextmanager
def called_by_command() -> Iterator[None]:
    """Let messages name options of commands, until the end of the command."""
    global _commands  # noqa: PLW0603  (a variable of a context would not reach Ray Tune's thread)
    _commands += 1
    try:
        yield
    finally:
        _commands -= 1


def as_typed(in_command: str, in_python: str) -> str:
    """Return how the caller gives an option: `--fresh` in a command, `fresh=True` in Python."""
    return in_command if _commands else in_python
