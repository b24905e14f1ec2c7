"""The commands that reach a sweep on a cluster from anywhere: `submit`, `logs`, `stop`."""

# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchestrator.cli.exit_codes import refusing
from orchestrator.cli.options import set_option, spec_argument
from orchestrator.storage.home import sweep_home

dashboard_option = click.option(
    "--address",
    metavar="URL",
    help="Of the dashboard of a cluster's head, such as http://10.0.0.5:8265.",
)
_required_dashboard = click.option(
    "--address",
    metavar="URL",
    required=True,
    help="Of the dashboard of the cluster's head, such as http://10.0.0.5:8265.",
)


@click.command()
@spec_argument
@set_option
@_required_dashboard
@click.option(
    "--home",
    default="~/rnnsweep-data",
    show_default=True,
    help="Where the head keeps the sweep: an absolute path there, or one from its user's home.",
)
@click.option("--fresh", is_flag=True, help="Start anew, beside the trials that are there.")
@click.option("--retry-failed", is_flag=True, help="Do failed trials again.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a large sweep.")
@click.option("--detach", is_flag=True, help="Do not follow it.")
@refusing
def submit(spec: Path, overrides: tuple[str, ...], address: str, **choices: Any) -> int:
    """Run, or finish, the sweep of a SPEC file on a cluster, and follow it.

    It runs on the cluster's head and needs nothing from here: Ctrl-C, or the end of this machine,
    leaves it running. Its code travels, with your own workload's; MLFLOW_TRACKING_URI and MLflow's
    credentials go with it where they are set, and into Ray's logs there: to keep them out, put them
    into ~/.mlflow/credentials on the head. The exit code is the sweep's own.
    """
    from orchestrator.cli import submit as submitting

    return submitting.submit(spec, overrides, address, submitting.Options(**choices))


@click.command()
@click.argument("sweep")
@_required_dashboard
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends; with its exit code.")
@refusing
def logs(sweep: str, address: str, follow: bool) -> int:
    """Print what a submitted SWEEP has written."""
    from orchestrator.cli import submit as submitting

    return submitting.logs(address, sweep, follow=follow)


@click.command()
@click.argument("sweep")
@dashboard_option
@refusing
def stop(sweep: str, address: str | None) -> int:
    """Stop a SWEEP that runs here, or on a cluster; it can go on later."""
    from orchestrator.cli import stop as stopping_here
    from orchestrator.cli import submit as submitting

    if address is not None:
        return submitting.stop(address, sweep)
    return stopping_here.stop(sweep_home(), sweep)


COMMANDS = (submit, logs, stop)
