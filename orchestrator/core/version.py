"""The git commit of the running code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

COMMIT = "RNNSWEEP_COMMIT"
"""Names the commit of code that has travelled, and so lies in no repository any more."""


def commit() -> str | None:
    """The commit that this code was checked out at, here or where it travelled from."""
    return os.environ.get(COMMIT) or _git_commit(Path(__file__).resolve())


def _git_commit(file: Path) -> str | None:
    """The commit that the code was checked out at, marked where it has been changed since.

    None where `file` itself is not tracked: an installed package may lie inside of some other
    repository, such as the user's own around its virtual environment.
    """
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=12")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, if it says anything."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None
