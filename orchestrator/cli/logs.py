"""`rnnsweep logs`: the log of a sweep, on this machine or on a cluster."""

# ruff: noqa: PLC0415

import click

from orchestrator.cli import exit_codes, options
from orchestrator.cli.cluster_starts import expect_start, follow_start
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.core.errors import printable
from orchestrator.storage.home import sweep_home


@command(
    examples=["rnnsweep logs quickstart --follow"],
    notes="The log ends with what stopped the sweep.",
)
@options.sweep_argument("sweep")
@options.dashboard_option()
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Follow the log to its end; exit with the sweep's code.",
)
def logs(sweep: str, address: str | None, follow: bool) -> int:
    """Print the log of a SWEEP, a line for each trial that ended."""
    from orchestrator.cli import local

    if address is None:
        try:
            return local.show_log(sweep_home(), sweep, follow=follow)
        except KeyboardInterrupt:
            show(f"\n{sweep} continues without this terminal\n", err=True)
            return exit_codes.EXIT_STOPPED
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = expect_start(cluster, sweep)
    if follow and latest.is_active:
        return follow_start(cluster, latest, None)
    show(printable(cluster.log(latest.id)))
    return exit_codes.COMPLETE
