"""MLflow's own UI on a sweep's store: a process that lives as long as the command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from orchestrator.refusal import Refusal
from orchestrator.tracking import place


class PortTaken(Refusal):
    """Somebody else listens there."""


def serve(tracking_uri: str, home: Path, *, host: str, port: int) -> int:
    """Serve the UI until it is interrupted; for a tracking server, say where its UI is.

    Returns:
        The exit code: 0 once interrupted.

    Raises:
        StoreMissing: no sweep has made a store yet.
        PortTaken: the port is not free.
    """
    if not place.is_database(tracking_uri):
        print(f"The tracking server has its own UI: {place.shown(tracking_uri)}")  # noqa: T201
        return 0
    database = place.sqlite_path(tracking_uri)
    if database is not None and not database.exists():
        raise place.no_store(database)
    _expect_free(host, port)
    print(f"MLflow is coming up on http://{host}:{port} (Ctrl-C ends it)", flush=True)  # noqa: T201
    environ = dict(os.environ)
    place.set_defaults(environ)
    environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")  # seconds, for nothing here
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
        *("--backend-store-uri", tracking_uri),
        *("--default-artifact-root", str(place.artifact_root(home, tracking_uri))),
        *("--host", host, "--port", str(port)),
    ]
    with subprocess.Popen(command, env=environ) as server:
        try:
            return server.wait()
        except KeyboardInterrupt:  # the terminal has sent it to the server too
            return 0


def _expect_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortTaken(
                f"{host}:{port}: expected a free port, received: {error.strerror}. "
                "Choose another with --port"
            ) from error
