"""Recording into the store of a home, and what it has then."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from mlflow import MlflowClient

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.tracker import StoredRun, Tracker
from orchestrator.storage.tracking.trackers import create_tracker, open_tracker
from orchestrator.storage.tracking.writer import Writer
from tests.building.stores import build_opening, mlflow_address


def address(home: Path) -> str:
    """Return the address of the tracker of a home."""
    return mlflow_address(home)


def tracker(home: Path) -> Tracker:
    """Open the tracker of a home to write."""
    return create_tracker(address(home), home)


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
    """Bring a deleted run back, as people can do in MLflow's interface."""
    MlflowClient(tracking_uri=address(home)).restore_run(run_id)


def table(home: Path) -> Path:
    (path,) = home.glob("**/trials.parquet")
    return path


def other_owner() -> Owner:
    return Owner.here(psutil.Process().ppid())
