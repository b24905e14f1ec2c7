"""The tracker that an address means: a store of MLflow. Imports no MLflow until one is opened.

This is the one place that chooses a tracker: another one is chosen here by the scheme of its
addresses (docs/adding.md).
"""

from collections.abc import Mapping
from pathlib import Path

from orchestrator.storage.tracking.mlflow import address as mlflow_addresses
from orchestrator.storage.tracking.tracker import Tracker


def tracking_uri(home: Path, environ: Mapping[str, str]) -> str:
    """Return the address of the tracker: MLFLOW_TRACKING_URI, or the SQLite file of the home."""
    return mlflow_addresses.default_mlflow_uri(home, environ)


def open_tracker(address: str) -> Tracker:
    """Open a tracker to read it; raise `StoreMissing` if it is a file that is not there."""
    from orchestrator.storage.tracking.mlflow.store import MlflowStore  # noqa: PLC0415

    return MlflowStore(address)


def create_tracker(address: str, home: Path) -> Tracker:
    """Open a tracker to write to it, made if need be; its files may be kept in the home."""
    from orchestrator.storage.tracking.mlflow.store import MlflowStore  # noqa: PLC0415

    return MlflowStore(address, home)


def import_trackers() -> None:
    """Import what takes seconds. The recorder process calls it in a thread at its start."""
    from orchestrator.storage.tracking.mlflow.store import import_mlflow  # noqa: PLC0415

    import_mlflow()


def local_path(address: str) -> Path | None:
    """Return the file of a tracker on this machine; None for one on a server."""
    return mlflow_addresses.sqlite_path(address)


def is_missing(address: str) -> bool:
    """Return whether the tracker is a file on this machine that is not there (yet)."""
    path = local_path(address)
    return path is not None and not path.exists()


def without_passwords(text: str) -> str:
    """Return an address, or a text that quotes one, without passwords: for messages and logs."""
    return mlflow_addresses.without_mlflow_passwords(text)
