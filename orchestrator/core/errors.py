"""The base of every error on which a user can act (exit code 2), and texts of others' errors."""

from __future__ import annotations

import errno
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")


class Refusal(Exception):
    """Nothing was run; the message says where, what is wrong and what to do next."""

    __module__ = "rnnsweep"  # where users import it: a traceback names it so

    is_away = False
    """True if a server does not answer: the same command may succeed later."""


class MachineFull(Refusal):
    """A disk, or another limit of the machine, that is used up: it may have room later."""

    is_away = True


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
_UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
_UNUSABLE |= {errno.ENAMETOOLONG, errno.EIO, errno.ESTALE}


def refusal_of(error: OSError, target: object = None) -> Refusal | None:
    """Return an error of the operating system as one on which a user can act; None for others.

    `target` is what could not be written, where the error itself does not name it.
    """
    if error.errno not in _FULL | _UNUSABLE:
        return None
    where = target or error.filename or "this machine"
    reason = (error.strerror or str(error)).lower()
    if error.errno in _FULL:
        return MachineFull(f"{where}: {reason}. Make room, and run the same command again")
    return Refusal(f"{where}: {reason}")


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


def printable(text: str, limit: int | None = None) -> str:
    """Return a foreign text for a terminal: control characters as escapes, cut to a length."""
    cut = len(text) - limit if limit is not None else 0
    shown = "".join(
        char if char in "\n\t" or unicodedata.category(char) not in _CONTROL else ascii(char)[1:-1]
        for char in text[:limit]
    )
    return f"{shown}… ({cut:,} more characters)" if cut > 0 else shown


def first_problem(error: ValidationError) -> str:
    """Return the location and the text of the first problem that pydantic found."""
    problem = error.errors()[0]
    return f"{'.'.join(map(str, problem['loc'])) or 'the text'}: {problem['msg']}"
