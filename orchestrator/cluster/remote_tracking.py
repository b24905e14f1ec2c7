"""The tracking store of a submitted sweep: the settings of this machine that go with it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from orchestrator.core.errors import Refusal
from orchestrator.storage.tracking.address import is_database, shown, sqlite_path

_STORE = ("MLFLOW_TRACKING_URI",)
_CREDENTIALS = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_INSECURE_TLS",
)
_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_LOGGED = (
    "MLflow's password is sent too, and Ray writes it into its logs on the cluster. To keep it out "
    "of them, unset it here and store it in ~/.mlflow/credentials of the head's user"
)
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def store_for(address: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the tracking store that the sweep needs on the cluster.

    Raises:
        Refusal: the cluster cannot reach the store that is set here.
    """
    kept = {name: environ[name] for name in (*_STORE, *_CREDENTIALS) if environ.get(name)}
    uri = kept.get("MLFLOW_TRACKING_URI", "").strip()
    if not uri:
        return {}
    parts = urllib.parse.urlsplit(uri)
    instead = (
        "Set a server that the head can reach (http://…), or unset the variable: then the sweep "
        "uses the head's own MLFLOW_TRACKING_URI, or a SQLite store in its home on the head"
    )
    if sqlite_path(uri) is not None or parts.scheme in ("", "file"):
        raise Refusal(f"MLFLOW_TRACKING_URI: {uri} is a file of this machine. {instead}")
    over_network = parts.scheme in ("http", "https") or is_database(uri)
    if over_network and _is_local(parts.hostname) and not _is_local(_host(address)):
        raise Refusal(
            f"MLFLOW_TRACKING_URI: {shown(uri)} means this machine here and the head there. "
            f"{instead}"
        )
    return kept


def _host(address: str) -> str | None:
    return urllib.parse.urlsplit(address).hostname


def _is_local(host: str | None) -> bool:
    return host is None or host in _LOCAL


def where(environ: Mapping[str, str], home: str) -> str:
    """Return where a submitted sweep records its trials, with a warning about a sent secret."""
    if store := environ.get("MLFLOW_TRACKING_URI"):
        text = f"Trials are recorded in {shown(store)}"
        secret = any(environ.get(name) for name in _SECRETS) or shown(store) != store
        return f"{text}. {_LOGGED}" if secret else text
    return (
        "MLFLOW_TRACKING_URI is not set here: trials are recorded in the head's own store, or in "
        f"{home}/mlflow.db there if it has none"
    )
