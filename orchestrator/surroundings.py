"""What a trial ran in, as far as it can be told outside its trainer: software and node."""

from __future__ import annotations

import functools
import importlib.metadata
import subprocess
from pathlib import Path

from orchestrator import __version__, hardware

Fact = str | int | float | bool | None


@functools.cache
def surroundings() -> dict[str, Fact]:
    """Versions, commit and node of this process; what cannot be told is absent."""
    profile = hardware.probe(every_gpu=True)  # what Ray hides is part of the node
    facts: dict[str, Fact | None] = {
        "rnnsweep": __version__,
        "git_commit": _git_commit(Path(__file__).resolve()),
        "ray": importlib.metadata.version("ray"),
        "optuna": importlib.metadata.version("optuna"),
        "system": profile.system,
        "cpu_model": profile.cpu_model,
        "memory_mib": profile.memory_mib,
        "gpu_driver": profile.driver,
        "gpus": ", ".join(gpu.name for gpu in profile.gpus) or None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


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
