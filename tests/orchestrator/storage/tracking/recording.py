"""Recording into real trackers of a home, and what they have then."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.tracker import StoredRun, Tracker
from orchestrator.storage.tracking.trackers import kind_of, open_tracker
from orchestrator.storage.tracking.writer import Writer
from tests.building.stores import build_opening, mlflow_address
from tests.orchestrator.storage.tracking.files_tracker import FilesTracker

_INSTALLED = str(Path(__file__).with_name("installed"))
"""A folder that has what an installed package has: the entry point of the tracker of files."""


def install_files_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the tracker of plain files, for this process and for those that it starts."""
    monkeypatch.syspath_prepend(_INSTALLED)
    python_path = [_INSTALLED, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, python_path)))


def files_home(tmp_path: Path) -> Path:
    """Return a home whose tracker is the one of plain files, still without a run."""
    home = tmp_path / "home"
    (home / "files").mkdir(parents=True)
    return home


def address(home: Path) -> str:
    """Return the address of the tracker of a home."""
    files = home / "files"
    return f"files://{files}" if files.is_dir() else mlflow_address(home)


def tracker(home: Path) -> Tracker:
    """Open the tracker of a home to write."""
    return kind_of(address(home)).create(address(home), home)


def new_writer(home: Path) -> Writer:
    return Writer(address(home), home)


@contextmanager
def writer(home: Path) -> Iterator[Writer]:
    opened = new_writer(home)
    yield opened
    if opened._holds_lease:
        opened.close("stopped", {})


def record(home: Path, *trials: FinishedTrial) -> list[FinishedTrial]:
    """Open, record and close; return what the store had before, by block."""
    with writer(home) as opened:
        had, _ = opened.open(build_opening())
        opened.record(trials)
        opened.close("complete", {})
        return sorted(had, key=lambda trial: trial.block)


def parent(home: Path) -> StoredRun:
    """Return the one run of a sweep."""
    (run,) = open_tracker(address(home)).sweep_runs()
    return run


def children(home: Path) -> list[StoredRun]:
    """Return the runs of all trials, whole, by block."""
    opened = open_tracker(address(home))
    runs = [run for sweep in opened.sweep_runs() for run in opened.trial_runs(sweep)]
    whole = (opened.run(run.run_id) for run in runs)
    return sorted(whole, key=lambda run: int(run.tags["block"].strip("<>")))


def restore_run(home: Path, run_id: str) -> None:
    """Bring a deleted run back, as people can do in the tracker's own interface."""
    opened = tracker(home)
    if isinstance(opened, FilesTracker):
        opened.restore_run(run_id)
    else:
        MlflowClient(tracking_uri=address(home)).restore_run(run_id)


def table(home: Path) -> Path:
    (path,) = home.glob("**/trials.parquet")
    return path


def other_owner() -> Owner:
    return Owner.here(psutil.Process().ppid())
