"""How a message names what its reader types: an option of a command, or an argument in Python."""

from collections.abc import Iterator
from contextlib import contextmanager

_is_command = False
"""Whether a command runs in this process."""


@contextmanager
def called_by_command() -> Iterator[None]:
    """Let messages name options of commands, until the end of the command."""
    global _is_command  # noqa: PLW0603  (a variable of a context would not reach Ray Tune's thread)
    _is_command = True
    try:
        yield
    finally:
        _is_command = False


def as_typed(in_command: str, in_python: str) -> str:
    """Return how the caller gives an option: `--fresh` in a command, `fresh=True` in Python."""
    return in_command if _is_command else in_python
