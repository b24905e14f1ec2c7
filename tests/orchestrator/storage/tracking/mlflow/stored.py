"""MLflow's own view of the store of a home."""

from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from tests.building.stores import mlflow_address


def runs(home: Path, filter_text: str = "") -> list[Any]:
    client = MlflowClient(tracking_uri=mlflow_address(home))
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(experiments, filter_text))


def sweep_run(home: Path) -> Any:
    (run,) = runs(home, "tags.generation = '1'")
    return run


def trial_runs(home: Path) -> list[Any]:
    trials = [run for run in runs(home) if "mlflow.parentRunId" in run.data.tags]
    return sorted(trials, key=lambda run: int(run.data.tags["block"]))
