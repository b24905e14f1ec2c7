"""Homes that were moved, or restored from a copy in another folder.

MLflow's database has absolute addresses of artifacts. Reading finds the artifacts of a home next to
the database (`SqliteClient.folder`). Before MLflow itself writes, the addresses are corrected here:
it would write to the old folder.
"""

import logging
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from orchestrator.storage.tracking.mlflow import address

_ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
)
"""The tables and columns of MLflow with addresses of artifacts."""

_PATIENCE_S = 20.0

_log = logging.getLogger(__name__)


def correct_addresses(database: Path, home: Path) -> list[str]:
    """Correct the addresses of artifacts that are in this home now; return the former addresses.

    An experiment is corrected only if the artifacts of one of its runs are in the home: several
    homes can share a database, each with its own artifacts. A file that is no database of MLflow
    is left as it is.
    """
    if not database.is_file():
        return []
    root, former = address.artifact_root(home, f"sqlite:///{database}"), list[str]()
    assert root is not None
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, _PATIENCE_S)) as opened:
        locations = "SELECT experiment_id, artifact_location FROM experiments"
        for experiment, location in opened.execute(locations).fetchall():
            is_elsewhere = location is not None and location.rstrip("/") != root.as_uri()
            if is_elsewhere and _has_artifacts(opened, experiment, home):
                former.append(location.rstrip("/"))
        with opened:
            for old in dict.fromkeys(former):
                _replace(opened, old, root.as_uri())
    for old in dict.fromkeys(former):
        _log.warning("artifacts were in %s, and are in %s now", old, root)
    return former


def _has_artifacts(opened: sqlite3.Connection, experiment: object, home: Path) -> bool:
    runs = opened.execute("SELECT run_uuid FROM runs WHERE experiment_id = ?", [experiment])
    return any(address.artifact_folder(home, run_id).is_dir() for (run_id,) in runs)


def _replace(opened: sqlite3.Connection, old: str, new: str) -> None:
    """Replace the beginning of addresses that are `old` or below it."""
    for table, column in _ADDRESSES:
        with suppress(sqlite3.OperationalError):  # an MLflow without that table
            opened.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?)"
                f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                [new, len(old) + 1, old, len(old) + 1, f"{old}/"],
            )
