"""The base of every error on which a user can act (exit code 2), and texts of others' errors."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")


class Refusal(Exception):
    """Nothing was run; the message has the place, expected, received and the next step."""

    is_away = False
    """True if a server does not answer: the same command may succeed later."""


def wrong_version(place: str, kind: str, expected: int, received: object) -> str:
    """Return the sentence that refuses stored data of another format version."""
    version = "no version" if received is None else f"version {received}"
    return (
        f"{place}: expected {kind} of version {expected}, received {version}: use the rnnsweep that"
        " wrote it, or start over with `rnnsweep run SPEC --fresh`"
    )


def last_line(error: Exception, *, escaped: bool = False) -> str:
    """Return the last line of another process's error, which has its cause; its class without one.

    `escaped`: its line breaks may be escaped, as in the JSON of a server's answer.
    """
    text = str(error).replace("\\n", "\n") if escaped else str(error)
    lines = [line for line in _lines(text) if any(map(str.isalnum, line))]
    return lines[-1] if lines else type(error).__name__


def one_line(error: Exception, between: str = " ") -> str:
    """Return the lines of an error joined; its class if it has no text."""
    return between.join(_lines(str(error))) or type(error).__name__


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def printable(text: str, limit: int) -> str:
    """Return a foreign text for a terminal: control characters as escapes, cut to a length."""
    cut = len(text) - limit
    shown = "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _CONTROL else ascii(char)[1:-1]
        for char in text[:limit]
    )
    return f"{shown}… ({cut:,} more characters)" if cut > 0 else shown


def first_problem(error: ValidationError) -> str:
    """Return the place and the text of the first problem that pydantic found."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the text'}: {problem['msg']}"
