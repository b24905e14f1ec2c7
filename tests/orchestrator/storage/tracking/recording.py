"""Recording into real SQLite stores, and MLflow's own view of what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
from mlflow import MlflowClient

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.tracking import Owner, artifact_root
from orchestrator.storage.tracking.writer import Writer
from tests.orchestrator.sample_sweeps import address, opening


def writer(home: Path) -> Writer:
    return Writer(address(home), artifact_root(home, address(home)))


def record(home: Path, *trials: FinishedTrial) -> list[FinishedTrial]:
    """Open, record, close; what the store had before."""
    with writer(home) as opened:
        had = opened.open_sweep(opening(home))
        opened.record(trials)
        opened.close("complete", {})
        return had


def runs(home: Path, filter_text: str = "") -> list[Any]:
    client = MlflowClient(tracking_uri=address(home))
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(experiments, filter_text))


def children(home: Path) -> list[Any]:
    return [run for run in runs(home) if "mlflow.parentRunId" in run.data.tags]


def table(home: Path) -> Path:
    """The file of the sweep's table, where it lies."""
    (path,) = home.glob("mlartifacts/**/trials.parquet")
    return path


def other_owner() -> Owner:
    """A process of this machine that is alive and not this one."""
    return Owner.here(psutil.Process().ppid())
