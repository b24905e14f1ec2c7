"""MLflow's client for reading a SQLite file, without MLflow, whose import takes seconds.

It has the methods that `store` reads with, and needs a few tables and columns that MLflow
has had since version 2. Files that lack one, other stores, and all writing are for MLflow itself.
"""

import re
import sqlite3
import urllib.parse
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.storage.tracking.mlflow import address, mlflow_names
from orchestrator.storage.tracking.tracker import StoredRun
from orchestrator.storage.tracking.tracking_errors import StoreMissing

_EXPERIMENTS = (
    "SELECT CAST(experiment_id AS TEXT) AS experiment_id, name, lifecycle_stage FROM experiments"
)
_REMOTE = (
    "SELECT 1 FROM experiments WHERE artifact_location LIKE '%://%'"
    " AND artifact_location NOT LIKE 'file:%'"
)
_LOCATION = "SELECT artifact_location FROM experiments WHERE experiment_id = ?"
_RUNS = (
    "SELECT run_uuid, CAST(experiment_id AS TEXT) AS experiment, name, status, start_time,"
    " end_time, artifact_uri FROM runs"
)
_TAGS = "SELECT key, value FROM tags WHERE run_uuid = ?"
_PARAMS = "SELECT key, value FROM params WHERE run_uuid = ?"
_METRICS = "SELECT key, value FROM latest_metrics WHERE NOT is_nan AND run_uuid = ?"
_CONDITION = re.compile(r"(tags|attributes)\.`?([\w.]+)`? (=|LIKE) '([^']*)'")
_HAS_TAG = "EXISTS (SELECT 1 FROM tags WHERE run_uuid = runs.run_uuid AND key = ? AND value {} ?)"
_PATIENCE_S = 20.0  # as MLflow's, while somebody writes


def no_store(path: Path) -> StoreMissing:
    """Return the error for a SQLite file that is not there."""
    return StoreMissing(
        f"MLflow store {path}",
        "no such file",
        "Run a sweep first, or set RNNSWEEP_HOME or MLFLOW_TRACKING_URI to another store",
    )


def client_of(uri: str) -> "SqliteClient | None":
    """Return a client for a SQLite file; None if MLflow must read the store, or explain why not."""
    path = address.sqlite_path(uri)
    if path is None:
        return None
    if not path.exists():
        raise no_store(path)
    try:
        return SqliteClient(path)
    except sqlite3.Error:
        return None


class SqliteClient:
    """A SQLite file of MLflow, open for reading, with the reading methods of MLflow's client."""

    def __init__(self, path: Path) -> None:
        """Open the file; raise `sqlite3.Error` if it lacks a table, or artifacts are elsewhere."""
        target = f"{path.absolute().as_uri()}?mode=ro"
        self._home = path.absolute().parent
        self._database = sqlite3.connect(target, _PATIENCE_S, uri=True)
        self._database.text_factory = lambda text: text.decode(errors="replace")
        for query in (_EXPERIMENTS, _RUNS, _TAGS, _PARAMS, _METRICS):
            self._database.execute(f"{query} LIMIT 0", [""] * query.count("?"))
        if self._database.execute(_REMOTE).fetchone():
            raise sqlite3.NotSupportedError("its artifacts are not in folders of this machine")

    def search_experiments(self, **_: object) -> list[Any]:
        """Return all active experiments."""
        return self._rows(f"{_EXPERIMENTS} WHERE lifecycle_stage = 'active'")

    def get_experiment_by_name(self, name: str) -> Any:
        """Return an experiment, also a deleted one; None if there is none."""
        return next(iter(self._rows(f"{_EXPERIMENTS} WHERE name = ?", name)), None)

    def search_runs(
        self, *, experiment_ids: Sequence[str], filter_string: str, run_view_type: int, **_: object
    ) -> Iterator[StoredRun]:
        """Return runs in order of start; the filter is on tags and on the status.

        The runs of trials have no params and metrics here: their records do.
        """
        clauses, values = ["lifecycle_stage = ?"], ["active" if run_view_type == 1 else "deleted"]
        conditions = _CONDITION.findall(filter_string)
        conditions.reverse()
        # Columns first, then the last tag, which few runs have: a look at tags reads from the disk.
        for kind, name, operator, value in sorted(conditions, key=itemgetter(0)):
            clauses.append(_HAS_TAG.format(operator) if kind == "tags" else f"{name} = ?")
            values += [name, value] if kind == "tags" else [value]
        clauses.append(f"experiment_id IN ({', '.join('?' * len(experiment_ids))})")
        query = f"{_RUNS} WHERE {' AND '.join(clauses)} ORDER BY start_time"
        is_whole = mlflow_names.PARENT_TAG not in filter_string
        rows = self._rows(query, *values, *experiment_ids)
        return (self._stored_run(row, is_whole=is_whole) for row in rows)

    def get_run(self, run_id: str) -> StoredRun:
        """Return one run."""
        return self._stored_run(self._run(run_id), is_whole=True)

    def list_artifacts(self, run_id: str) -> list[Any]:
        """Return the files and folders at the top of a run's artifacts."""
        folder = self.folder(run_id)
        files = folder.iterdir() if folder.is_dir() else ()
        return [SimpleNamespace(path=file.name) for file in files]

    def locations(self, run_id: str) -> tuple[str, str]:
        """Return the addresses of a run's artifacts, and of its experiment's."""
        run = self._run(run_id)
        (experiment,) = self._rows(_LOCATION, run.experiment)
        return run.artifact_uri, experiment.artifact_location

    def folder(self, run_id: str) -> Path:
        """Return the folder of a run's artifacts, also where the home was copied or moved."""
        if (moved := address.artifact_folder(self._home, run_id)).is_dir():
            return moved
        uri = self._run(run_id).artifact_uri
        parts = urllib.parse.urlparse(uri)
        return Path(urllib.parse.unquote(parts.path) if parts.scheme else uri)

    def _run(self, run_id: str) -> Any:
        rows = self._rows(f"{_RUNS} WHERE run_uuid = ?", run_id)
        if not rows:
            raise LookupError(f"no run {run_id}")
        return rows[0]

    def _stored_run(self, row: Any, *, is_whole: bool) -> StoredRun:
        """Return the run of a row, with its params and metrics if it is to be whole."""
        queries = {"tags": _TAGS, **({"params": _PARAMS, "metrics": _METRICS} if is_whole else {})}
        maps: dict[str, Any] = {
            name: dict(self._database.execute(q, [row.run_uuid])) for name, q in queries.items()
        }
        maps["tags"] = mlflow_names.tags_of(maps["tags"])
        return StoredRun(
            row.run_uuid,
            row.experiment,
            row.name or "",
            mlflow_names.run_status(row.status),
            row.start_time or 0,
            **maps,
            end_ms=row.end_time or 0,
        )

    def _rows(self, query: str, *values: str) -> list[Any]:
        cursor = self._database.execute(query, values)
        columns = [column[0] for column in cursor.description]
        return [SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in cursor]
