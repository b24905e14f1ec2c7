"""The measured trials of a home's other sweeps of a workload, which help to predict a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.analysis.cost_model import Observation, observe
from orchestrator.core.trial import SweepIdentity
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import JournalError, read, replay
from orchestrator.storage.tracking.run_content import all_settings

_MOST_SWEEPS = 5


def settings_of(identity: SweepIdentity) -> Mapping[str, Any]:
    """Return all settings that the trials of a sweep share, defaults included."""
    return all_settings(identity, {})


def others(folder: SweepFolder, workload: str) -> Iterator[tuple[str, list[Observation]]]:
    """Yield the latest sweeps of the home by other names, each with its complete trials.

    A journal that cannot be read is skipped: it is needed for a forecast only.
    """
    home = folder.home / "sweeps"
    folders = [path for path in home.iterdir() if path.is_dir()] if home.is_dir() else []
    remaining = _MOST_SWEEPS
    for path in sorted(folders, key=_changed, reverse=True):
        other = SweepFolder(folder.home, path.name)
        if other.name == folder.name or not remaining:
            continue
        try:
            state = replay(read(other.generation(other.latest())))
        except (JournalError, OSError):
            continue
        if state is None or state.identity.workload != workload:
            continue
        seen = observe(state.finished.values(), settings_of(state.identity))
        if seen:
            remaining -= 1
            yield state.identity.label, seen


def _changed(path: Path) -> float:
    return max((journal.stat().st_mtime for journal in path.rglob("*.jsonl")), default=0.0)
