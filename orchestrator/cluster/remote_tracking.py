"""The tracking store of a sweep that runs elsewhere: what of this machine's settings goes there."""

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
    "MLflow's password goes along, and Ray writes it into its logs on the cluster; in "
    "~/.mlflow/credentials of the head's user, and unset here, it would stay out of them"
)
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def store_for(address: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What the sweep has to know of the tracking store, of all that is set here.

    Raises:
        Refusal: the store that is set here cannot be reached from the cluster.
    """
    kept = {name: environ[name] for name in (*_STORE, *_CREDENTIALS) if environ.get(name)}
    uri = kept.get("MLFLOW_TRACKING_URI", "").strip()
    if not uri:
        return {}
    parts = urllib.parse.urlsplit(uri)
    instead = (
        "Expected a server that the head can reach (http://…), or nothing: then the head's own "
        "MLFLOW_TRACKING_URI counts, or a SQLite store in the sweep's home on the head"
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
    """A sentence about where a submitted sweep's trials go, and one about a secret on its way."""
    if store := environ.get("MLFLOW_TRACKING_URI"):
        told = f"Trials go to {shown(store)}"
        secret = any(environ.get(name) for name in _SECRETS) or shown(store) != store
        return f"{told}. {_LOGGED}" if secret else told
    return (
        "MLFLOW_TRACKING_URI is not set here: trials go to the head's own, and if it has none, to "
        f"{home}/mlflow.db there"
    )
