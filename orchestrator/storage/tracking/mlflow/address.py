"""Addresses of MLflow's stores, and its environment variables. Imports no MLflow."""

import posixpath
import re
import tomllib
import urllib.parse
from collections.abc import Mapping, MutableMapping
from pathlib import Path

_SECRET = "password|passwd|pwd|token|secret|access_?key|api_?key"
_DEFAULTS = tomllib.loads(Path(__file__).with_name("settings.toml").read_text())

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")

MLFLOW_URI_VARIABLE = "MLFLOW_TRACKING_URI"
MLFLOW_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
MLFLOW_CREDENTIALS = (
    *MLFLOW_SECRETS,
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_INSECURE_TLS",
)
"""The variables that a sweep on another machine needs besides the address."""


def default_mlflow_uri(home: Path, environ: Mapping[str, str]) -> str:
    """Return the store's address: MLFLOW_TRACKING_URI, or the SQLite file in the sweep home."""
    uri = environ.get(MLFLOW_URI_VARIABLE, "").strip()
    if uri:
        return uri
    # Quoted, since SQLAlchemy unquotes: a home may be named `50%` or `a?b`.
    return f"sqlite:///{urllib.parse.quote(str(home.resolve() / 'mlflow.db'))}"


def artifact_root(home: Path, uri: str) -> Path | None:
    """Return the folder of artifacts for a database; None for a server, which has its own."""
    return home.resolve() / "mlartifacts" if is_database(uri) else None


def artifact_folder(home: Path, run_id: str) -> Path:
    """Return the folder of a run's artifacts below the artifacts of a home, as MLflow makes it."""
    return home / "mlartifacts" / run_id / "artifacts"


def is_database(uri: str) -> bool:
    """Return whether the address names a database, which MLflow opens without a server."""
    scheme = uri.partition(":")[0].partition("+")[0]
    return scheme in DATABASES


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite store; None for any other."""
    match = re.match(r"sqlite(\+\w+)?:///(?P<path>[^?]+)", uri)
    return Path(urllib.parse.unquote(match["path"])) if match else None


def lies_below(uri: str, location: str) -> bool:
    """Return whether an address of artifacts is one within another one; `..` is resolved."""
    (server, path), (parent_server, parent_path) = map(_server_and_path, (uri, location))
    return server == parent_server and path.startswith(f"{parent_path.rstrip('/')}/")


def _server_and_path(uri: str) -> tuple[str, str]:
    """Return the server of an address, empty for a file, and the path there without `..`."""
    parts = urllib.parse.urlsplit(uri)
    is_file = parts.scheme in ("", "file")
    server = "" if is_file else f"{parts.scheme}://{parts.netloc}"
    path = urllib.parse.unquote(parts.path) if parts.scheme else uri
    return server, posixpath.normpath(path)


def without_mlflow_passwords(text: str) -> str:
    """Return an address, or a text that quotes one, without passwords: for messages and logs."""
    text = re.sub(r"(//[^/@:\s]*):[^\s'\"]*@", r"\1:***@", text)
    return re.sub(rf"(?i)(\b({_SECRET})\w*=)[^&\s'\"]+", r"\1***", text)


def root_url(uri: str) -> str:
    """Return a server's address for links, without a login: browsers ask for it."""
    return re.sub(r"//[^/@]*@", "//", uri).rstrip("/")


def set_defaults(environ: MutableMapping[str, str]) -> None:
    """Set MLflow's environment variables, except those that the user has set."""
    for name, value in _DEFAULTS.items():
        environ.setdefault(name, value)
