"""The folder of our packages, and the git commits of them and of a user's own workload."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the folder of our packages

COMMIT, WORKLOAD_COMMIT = "RNNSWEEP_COMMIT", "RNNSWEEP_WORKLOAD_COMMIT"
"""Environment variables with the commits of code that was copied out of its repository."""


def import_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Return PYTHONPATH with the folder of our packages first, for processes of ours.

    They run with `-P`: a user's package in the current folder may have the name of one of ours.
    """
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), environ.get("PYTHONPATH")]))}


def commit() -> str | None:
    """Return the commit of this code, here or where it was copied from."""
    return os.environ.get(COMMIT) or _built_commit() or _git_commit(Path(__file__).resolve())


def _built_commit() -> str | None:
    """Return the commit that a package was built from (`hatch_build.py`); a checkout has none."""
    try:
        return (ROOT / "orchestrator" / "commit.txt").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def workload_commit(folder: Path, files: Iterable[str]) -> str | None:
    """Return the commit of a user's files, marked `-dirty` if they are not as they are there."""
    if copied := os.environ.get(WORKLOAD_COMMIT):
        return copied
    head = _git(folder, "rev-parse", "--short=12", "HEAD")
    changes = head and _git(folder, "status", "--porcelain", "--ignored", "--", *files)
    return f"{head}-dirty" if changes else head


def _git_commit(file: Path) -> str | None:
    """Return the commit of the checkout, marked `-dirty` if it has been changed since."""
    # Return None if `file` itself is not tracked: an installed package can be inside another
    # repository, such as the user's own around its virtual environment.
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return _git(file.parent, "describe", "--always", "--dirty", "--abbrev=12")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None
