"""The git commit of the running code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

COMMIT = "RNNSWEEP_COMMIT"
"""Environment variable with the commit of code that was copied out of its repository."""


def commit() -> str | None:
    """Return the commit of this code, here or where it was copied from."""
    return os.environ.get(COMMIT) or _git_commit(Path(__file__).resolve())


def _git_commit(file: Path) -> str | None:
    """Return the commit of the checkout, marked `-dirty` if it has been changed since.

    Return None if `file` itself is not tracked: an installed package can be inside another
    repository, such as the user's own around its virtual environment.
    """
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=12")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None for an error or no output."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None
