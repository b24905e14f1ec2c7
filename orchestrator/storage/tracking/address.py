"""Where a tracking store is: its address, and MLflow's surroundings. Imports no MLflow."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from orchestrator.storage.tracking.errors import StoreMissing

_DEFAULTS = {
    # No usage pings, in either of the two ways that MLflow knows.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # a line per run, with a server
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
    # MLflow's own 7 retries of 120 s hold everything up for minutes; the recorder tries again
    # by itself, and a person at a terminal wants to know.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}


def tracking_uri(home: Path, environ: Mapping[str, str]) -> str:
    """The store's address: MLFLOW_TRACKING_URI, or the SQLite file in the sweep home."""
    given = environ.get("MLFLOW_TRACKING_URI", "").strip()
    if given:
        return given
    # Quoted, since SQLAlchemy unquotes: a home named `50%` or `a?b` is as good as any.
    return f"sqlite:///{urllib.parse.quote(str(home.resolve() / 'mlflow.db'))}"


def artifact_root(home: Path, uri: str) -> Path | None:
    """Where artifacts go, for a database; a server has a place of its own (None)."""
    return home.resolve() / "mlartifacts" if is_database(uri) else None


def is_database(uri: str) -> bool:
    """Whether MLflow speaks to a database of this address itself."""
    scheme = uri.partition(":")[0].partition("+")[0]
    return scheme in ("sqlite", "postgresql", "mysql", "mssql")


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite store; None for any other."""
    match = re.match(r"sqlite(\+\w+)?:///(?P<path>[^?]+)", uri)
    return Path(urllib.parse.unquote(match["path"])) if match else None


def shown(uri: str) -> str:
    """The address without a password: it goes into messages and logs."""
    return re.sub(r"(?<=//)([^/@:]*):[^/@]*@", r"\1:***@", uri)


def no_store(path: Path) -> StoreMissing:
    """A store that should be read and is not there."""
    return StoreMissing(
        f"MLflow store {path}",
        "a SQLite file",
        "nothing of that name",
        "Run a sweep first, or set MLFLOW_TRACKING_URI (or RNNSWEEP_HOME) to the store you mean",
    )


def set_defaults(environ: MutableMapping[str, str]) -> None:
    """Set what MLflow reads from its process's environment, where the user has not."""
    for name, value in _DEFAULTS.items():
        environ.setdefault(name, value)
