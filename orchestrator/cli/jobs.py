"""Commands that reach a sweep on a cluster from any machine: `submit`, `logs`, `stop`."""

# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from orchestrator.cli.exit_codes import with_exit_code
from orchestrator.cli.options import (
    dashboard_option,
    fresh_option,
    retry_option,
    set_option,
    spec_argument,
    yes_option,
)
from orchestrator.storage.home import sweep_home

_required_dashboard = click.option(
    "--address",
    metavar="URL",
    required=True,
    help="Use the cluster with this dashboard on its head, such as http://10.0.0.5:8265.",
)


@click.command()
@spec_argument
@set_option
@_required_dashboard
@click.option(
    "--home",
    default="~/rnnsweep-data",
    show_default=True,
    help="Keep the sweep in this folder of the head: an absolute path, or one from ~.",
)
@fresh_option
@retry_option
@yes_option
@click.option("--detach", is_flag=True, help="Return as soon as the sweep is submitted.")
@with_exit_code
def submit(spec: Path, overrides: tuple[str, ...], address: str, **options: Any) -> int:
    """Run or resume a sweep on a cluster; follow its output.

    The sweep runs on the head of the cluster. Ctrl-C, or the end of this machine, leaves it
    running. Its code is uploaded, together with your own workload. MLFLOW_TRACKING_URI and the
    credentials of MLflow are passed on where they are set, and appear in Ray's logs there. To keep
    them out of the logs, put them into ~/.mlflow/credentials on the head. The exit code is that of
    the sweep.
    """
    from orchestrator.cli import submit as remote

    return remote.submit(spec, overrides, address, remote.SubmitOptions(**options))


@click.command()
@click.argument("sweep")
@_required_dashboard
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the log to its end; exit with the sweep's code."
)
@with_exit_code
def logs(sweep: str, address: str, follow: bool) -> int:
    """Print the log of a submitted SWEEP."""
    from orchestrator.cli import submit as remote

    return remote.logs(address, sweep, follow=follow)


@click.command()
@click.argument("sweep")
@dashboard_option
@with_exit_code
def stop(sweep: str, address: str | None) -> int:
    """Stop a SWEEP; it can be resumed later."""
    from orchestrator.cli import stop as local
    from orchestrator.cli import submit as remote

    if address is not None:
        return remote.stop(address, sweep)
    return local.stop(sweep_home(), sweep)


COMMANDS = (submit, logs, stop)
