"""MLflow's own UI on a sweep's store: a process that lives as long as the command."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import interrupted_by
from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking.mlflow import address
from orchestrator.storage.tracking.mlflow.sqlite_client import no_store
from orchestrator.storage.tracking.tracking_errors import TrackingError

if TYPE_CHECKING:
    from orchestrator.core.records import SweepRecord
    from orchestrator.storage.tracking.tracker import StoredRun

HOST, PORT = "127.0.0.1", 5000
"""The default address of the UI."""


def _named(_: click.Context, __: click.Parameter, host: str) -> str:
    """Refuse a host without a name, which would mean all addresses of the machine."""
    if not host.strip():
        raise click.BadParameter("it is empty: give an address such as 127.0.0.1")
    return host


@command(
    examples=["rnnsweep ui"],
    notes="If MLFLOW_TRACKING_URI is a server, prints the links to that server.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    show_default=True,
    help="Listen on this port.",
)
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    callback=_named,
    help="Listen on this address.",
)
def ui(port: int, host: str) -> int:
    """Serve MLflow's UI for all sweeps, or print links to it."""
    home = sweep_home()
    tracking_uri = address.default_mlflow_uri(home, os.environ)
    if not address.is_database(tracking_uri):
        root_url = address.root_url(tracking_uri)
        show(f"MLflow: {root_url}\n{_links(tracking_uri, root_url)}")
        return 0
    database = address.sqlite_path(tracking_uri)
    if database is not None and not database.exists():
        raise no_store(database)
    _expect_free(host, port)
    # Everybody on this machine can read a command, and a password in it.
    environ = {**os.environ, "MLFLOW_BACKEND_STORE_URI": tracking_uri}
    address.set_defaults(environ)
    environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")  # seconds, for nothing here
    environ.setdefault("PYTHONWARNINGS", "ignore")
    server_words = [
        sys.executable,
        "-P",
        "-m",
        "mlflow",
        "server",
        "--workers=1",
        "--uvicorn-opts=--log-level warning",
        f"--default-artifact-root={address.artifact_root(home, tracking_uri)}",
        f"--host={host}",
        f"--port={port}",
    ]
    show("MLflow is starting …\n")
    # A session of its own: Ctrl-C in the terminal is this command's to handle.
    with (
        interrupted_by(signal.SIGTERM, signal.SIGHUP),
        subprocess.Popen(server_words, env=environ, start_new_session=True) as server,
    ):
        try:
            if _wait_for(server, host, port):
                root_url = f"http://{host}:{port}"
                show(f"MLflow: {root_url} (stop with Ctrl-C)\n")
                with contextlib.suppress(TrackingError):
                    show(_links(tracking_uri, root_url))
            return server.wait()
        except KeyboardInterrupt:
            os.killpg(server.pid, signal.SIGTERM)
            return 0


def view_of(record: SweepRecord, tracking_uri: str) -> str:
    """Return a link to the trials of a sweep in MLflow, with the columns and charts that matter."""
    from orchestrator.storage.tracking.mlflow.ui_views import view_link

    is_local = address.is_database(tracking_uri)
    root_url = f"http://{HOST}:{PORT}" if is_local else address.root_url(tracking_uri)
    link = view_link(root_url, record.experiment_id, record.run_id)
    return f"the trials in MLflow{', while `rnnsweep ui` runs' if is_local else ''}: {link}"


def _links(tracking_uri: str, root_url: str) -> str:
    """Return a line for the latest generation of each sweep, and one for all sweeps together."""
    from orchestrator.storage.tracking.mlflow.ui_views import sweeps_link, view_link
    from orchestrator.storage.tracking.reader import list_sweeps

    latest: dict[str, StoredRun] = {}
    for run in list_sweeps(tracking_uri):
        latest.setdefault(run.experiment_id, run)
    lines = [(run.name, view_link(root_url, key, run.run_id)) for key, run in latest.items()]
    if len(lines) > 1:
        lines.append(("all sweeps", sweeps_link(root_url, list(latest))))
    shown = "".join(f"  {name:20}  {link}\n" for name, link in lines)
    return f"{shown}  In MLflow's own list of experiments, choose Model training at the top left.\n"


def _wait_for(server: subprocess.Popen[bytes], host: str, port: int) -> bool:
    """Wait until the server answers; return False if it ends before."""
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return True
        time.sleep(0.2)
    return False


def _expect_free(host: str, port: int) -> None:
    try:
        socket.create_server((host, port)).close()
    except (OSError, UnicodeError, TypeError) as error:  # or no host name
        reason = getattr(error, "strerror", None) or error
        raise Refusal(
            f"cannot listen on {host:.100}:{port}: {reason}. Choose another port with --port"
        ) from error
