"""Names in MLflow: tags, statuses and search filters. Imports no MLflow."""

from collections.abc import Mapping

from orchestrator.storage.tracking.stored_records import HIDDEN
from orchestrator.storage.tracking.tracker import RunStatus

PARENT_TAG = "mlflow.parentRunId"
SOURCE_TAGS = {"mlflow.source.name": "rnnsweep", "mlflow.source.type": "LOCAL"}
COMMIT_TAG = "mlflow.source.git.commit"  # which MLflow's UI shows
MODEL_TAG = "model"  # the address of a run's model (`models:/ID`), as MLflow's loaders take it
NOTE_TAG = "mlflow.note.content"  # the description of a run or an experiment, in Markdown
NOTE_DIGEST_TAG = "mlflow.rnnsweep.note"

SWEEP_RUNS = "tags.generation LIKE '%'"
"""The search filter of every sweep's run: runs of trials have no generation."""

_STATUSES: Mapping[RunStatus, str] = {
    "running": "RUNNING",
    "finished": "FINISHED",
    "failed": "FAILED",
    "stopped": "KILLED",
}
_FROM_MLFLOW = {theirs: ours for ours, theirs in _STATUSES.items()}


def mlflow_status(status: RunStatus) -> str:
    """Return MLflow's word for the status of a run."""
    return _STATUSES[status]


def run_status(mlflow_status: str) -> RunStatus:
    """Return the status of a run that MLflow has with this word."""
    return _FROM_MLFLOW.get(mlflow_status, "running")


def mlflow_tag(name: str) -> str:
    """Return MLflow's name of a tag. Its UI hides those that begin with `mlflow.`."""
    return f"mlflow.{name}" if name.startswith(HIDDEN) else name


def tags_of(mlflow_tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a run under our names."""
    prefix = f"mlflow.{HIDDEN}"
    return {
        name.removeprefix("mlflow.") if name.startswith(prefix) else name: text
        for name, text in mlflow_tags.items()
    }


def trial_runs_filter(sweep_run_id: str) -> str:
    """Return the search filter of the runs of a sweep's trials."""
    return f"tags.`{PARENT_TAG}` = '{sweep_run_id}'"
