"""`rnnsweep stop`: the end of a running sweep, on this machine or on a cluster."""

# ruff: noqa: PLC0415

import os
import signal
import time
from pathlib import Path

from orchestrator.cli import options
from orchestrator.cli.cluster_starts import describe_end, expect_start
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import SweepFolder, sweep_home
from orchestrator.storage.lock import Owner, holder

_WAIT_S, _POLL_S = 90.0, 0.2


@command(examples=["rnnsweep stop quickstart"])
@options.sweep_argument("sweep")
@options.dashboard_option()
def stop(sweep: str, address: str | None) -> None:
    """Stop a SWEEP; it can be resumed later."""
    if address is None:
        stop_local_sweep(sweep_home(), sweep)
    else:
        _stop_submitted_sweep(address, sweep)


def stop_local_sweep(home: Path, sweep: str) -> None:
    """Ask the driver here to stop a sweep, as Ctrl-C in its terminal does, and wait for its end."""
    folder = SweepFolder(home, sweep).path
    driver = holder(folder)
    if driver is None:
        raise Refusal(
            f"sweep {sweep!r} is not running in {home}. To stop one on a cluster, add --address"
        )
    if driver.machine != Owner.here().machine or driver.is_gone():
        raise Refusal(f"{sweep} runs elsewhere ({driver}). Stop it on that machine")
    os.kill(driver.pid, signal.SIGTERM)
    show(f"Stopping {driver}: finished trials are being recorded\n", err=True)
    deadline_s = time.monotonic() + _WAIT_S
    while holder(folder) == driver:
        if time.monotonic() > deadline_s:
            raise Refusal(f"{sweep}: {driver} has not stopped within {_WAIT_S:.0f} s")
        time.sleep(_POLL_S)
    show(f"{sweep} stopped. Run the same command again to resume\n", err=True)


def _stop_submitted_sweep(address: str, sweep: str) -> None:
    """Stop the latest start of a sweep on a cluster, and wait for its end."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = expect_start(cluster, sweep)
    if not latest.is_active:
        raise Refusal(f"{sweep} is not running at {address}: {describe_end(latest)}")
    show(f"Stopping {latest.id}: finished trials are being recorded\n", err=True)
    ended = cluster.stop(latest.id)
    show(f"{sweep}: {describe_end(ended)}. Submit it again to resume\n", err=True)
