"""`rnnsweep stop`: the end of a running sweep, on this machine or on a cluster."""

# ruff: noqa: PLC0415

from orchestrator.cli import options
from orchestrator.cli.cluster_starts import describe_end, expect_start
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home


@command(examples=["rnnsweep stop quickstart"])
@options.sweep_argument("sweep")
@options.dashboard_option()
def stop(sweep: str, address: str | None) -> None:
    """Stop a SWEEP; it can be resumed later."""
    from orchestrator.cli import local

    if address is None:
        local.stop_local_sweep(sweep_home(), sweep)
        return
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = expect_start(cluster, sweep)
    if not latest.is_active:
        raise Refusal(f"{sweep} is not running at {address}: {describe_end(latest)}")
    show(f"Stopping {latest.id}: finished trials are being recorded\n", err=True)
    ended = cluster.stop(latest.id)
    show(f"{sweep}: {describe_end(ended)}. Submit it once more to resume\n", err=True)
