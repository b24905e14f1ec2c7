"""Recording into real SQLite stores, and MLflow's own view of what is in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from mlflow import MlflowClient

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.mlflow.address import artifact_root
from orchestrator.storage.tracking.writer import Writer
from tests.orchestrator.sample_sweeps import address, opening


def new_writer(home: Path) -> Writer:
    return Writer(address(home), artifact_root(home, address(home)))


@contextmanager
def writer(home: Path) -> Iterator[Writer]:
    opened = new_writer(home)
    yield opened
    if opened._holds_lease:
        opened.close("stopped", {})


def record(home: Path, *trials: FinishedTrial) -> list[FinishedTrial]:
    """Open, record and close; return what the store had before, by block."""
    with writer(home) as opened:
        had, _ = opened.open(opening())
        opened.record(trials)
        opened.close("complete", {})
        return sorted(had, key=lambda trial: trial.block)


def runs(home: Path, filter_text: str = "") -> list[Any]:
    client = MlflowClient(tracking_uri=address(home))
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(experiments, filter_text))


def parent(home: Path) -> Any:
    (run,) = runs(home, "tags.generation = '1'")
    return run


def children(home: Path) -> list[Any]:
    trials = [run for run in runs(home) if "mlflow.parentRunId" in run.data.tags]
    return sorted(trials, key=lambda run: int(run.data.tags["block"]))


def table(home: Path) -> Path:
    (path,) = home.glob("mlartifacts/**/trials.parquet")
    return path


def other_owner() -> Owner:
    return Owner.here(psutil.Process().ppid())
