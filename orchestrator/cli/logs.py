"""`rnnsweep logs`: the log of a sweep, on this machine or on a cluster."""

# ruff: noqa: PLC0415

import codecs
import os
import time
from pathlib import Path

import click

from orchestrator.cli import exit_codes, options
from orchestrator.cli.cluster_starts import expect_start, follow_start
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal, printable
from orchestrator.storage.home import sweep_home
from orchestrator.storage.lock import holder

_FOLLOW_S = 1.0
_PART_BYTES = 2**20


@command(
    examples=["rnnsweep logs quickstart --follow"],
    notes="The last lines show why a sweep ended. On a cluster, the log has all that the sweep "
    "printed, including the report.",
)
@options.sweep_argument("sweep")
@options.dashboard_option()
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Follow the log until the sweep ends; exit with the sweep's code.",
)
def logs(sweep: str, address: str | None, follow: bool) -> int:
    """Print the log of a SWEEP, with a line for each trial."""
    if address is not None:
        return _show_submitted_log(address, sweep, follow=follow)
    try:
        return _show_local_log(sweep_home(), sweep, follow=follow)
    except KeyboardInterrupt:
        show(f"\n{sweep} continues without this terminal\n", err=True)
        return exit_codes.EXIT_STOPPED


def _show_local_log(home: Path, name: str, *, follow: bool) -> int:
    """Print the log of a sweep; with `follow`, to the end of its driver; return its exit code."""
    from orchestrator.cli.local import expect_sweep
    from orchestrator.storage.journal import read

    folder, is_running = expect_sweep(home, name), True
    try:  # a named pipe of another user, in a shared home, is not waited for
        descriptor = os.open(folder.log, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Refusal(
            f"{folder.log}: {reason}. Only `rnnsweep run` writes this file; in Python, the logger"
            f" rnnsweep has the lines. To see the trials: rnnsweep query {name}"
        ) from error
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with os.fdopen(descriptor, "rb") as file:
        while is_running:
            is_running = follow and holder(folder.path) is not None  # before the last lines
            if file.tell() > os.fstat(file.fileno()).st_size:  # it was rotated
                file.seek(0)
            while part := file.read(_PART_BYTES):  # a log may be of any length
                # Ray colours its lines, and others may do worse.
                show(printable(decoder.decode(part)))
            time.sleep(_FOLLOW_S if is_running else 0)
    state = read(folder.generation(folder.latest())) if follow else None
    if state is None:
        return exit_codes.COMPLETE
    if state.ended is None or state.ended.state != "complete":
        return exit_codes.EXIT_STOPPED
    return exit_codes.code_of(state.finished.values())


def _show_submitted_log(address: str, sweep: str, *, follow: bool) -> int:
    """Print the log of the latest start on a cluster; with `follow`, return its exit code."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = expect_start(cluster, sweep)
    if follow and latest.is_active:
        return follow_start(cluster, latest, None)
    show(printable(cluster.log(latest.id)))
    return exit_codes.COMPLETE
