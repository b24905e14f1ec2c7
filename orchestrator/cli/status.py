"""`rnnsweep status`: how far sweeps are, on this machine or on a cluster."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import click

from orchestrator.cli import options
from orchestrator.cli.cluster_starts import describe_end, expect_start
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal, printable
from orchestrator.core.text import duration
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Submitted


@command(
    examples=["rnnsweep status quickstart"],
    notes="Without --address these are the sweeps that run, or have run, on this machine.",
)
@options.sweep_argument("sweep", required=False)
@options.dashboard_option()
@options.json_option
def status(sweep: str | None, address: str | None, form: str | None) -> None:
    """Show the progress of one SWEEP or of all."""
    from orchestrator.cli import local

    if address is None and form == "json":
        write(local.status_json(sweep_home(), sweep))
    elif address is None:
        show(printable(local.describe_sweeps(sweep_home(), sweep)))
    elif form == "json":
        raise click.UsageError("--format json: the sweeps of this machine only, without --address")
    else:
        show(_describe_submitted(address, sweep))


def _describe_submitted(address: str, sweep: str | None) -> str:
    """Return the latest start of one sweep or of all on a cluster, as lines."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    if sweep is not None:
        latest = [expect_start(cluster, sweep)]
    else:
        latest = list({start.sweep: start for start in cluster.starts()}.values())
    text = "".join(_describe(cluster, start) for start in latest)
    return text or f"no sweeps at {cluster.address}\n"


def _describe(cluster: Cluster, start: Submitted) -> str:
    """Return how far a start is, with the last line of its log, or how it ended."""
    if not start.is_active:
        ago_s = time.time() - start.ended_s if start.ended_s else 0.0
        return f"{start.sweep}: {describe_end(start)} ({start.id}), {duration(ago_s)} ago\n"
    since_s = time.time() - start.started_s if start.started_s else 0.0
    lines = [f"{start.sweep}: {start.state} ({start.id}), for {duration(since_s)}"]
    with contextlib.suppress(Refusal):
        log = [line for line in cluster.log(start.id).splitlines() if line.strip()]
        lines += [f"  {log[-1]}"] if log else []
    return "\n".join(lines) + "\n"
