"""The command line: commands, messages and exit codes. Results go to stdout, all else to stderr.

Exit codes: 0 complete; 1 complete with failed trials; 2 the spec or the command line is wrong
(nothing was run); 3 stopped and resumable. Heavy imports wait until a command needs them, so
that `--help` answers at once.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from orchestrator import __version__

if TYPE_CHECKING:
    from orchestrator.spec import SweepSpec

Parameters = ParamSpec("Parameters")

REFUSED = 2
"""The exit code of a wrong spec or command line."""

_SET_HELP = "Override a key of the spec, such as settings.epochs=2. May be repeated."
_ADDRESS_HELP = "Address of a running Ray cluster; without it the sweep runs on this machine."


class Refused(click.ClickException):
    """What the user has to change; printed without a traceback."""

    exit_code = REFUSED


def refusing(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Turn the errors that a user can act on into messages and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        from orchestrator import refusals  # noqa: PLC0415

        try:
            command(*args, **kwargs)
        except refusals.Refusal as refusal:
            raise Refused(str(refusal)) from refusal

    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rnnsweep")
def main() -> None:
    """Sweep recurrent networks over hardware and implementations, and compare them."""


@main.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help=_SET_HELP)
@click.option("--address", metavar="ADDR", help=_ADDRESS_HELP)
@click.option("--fresh", is_flag=True, help="Start anew, beside the trials that are there.")
@click.option("--retry-failed", is_flag=True, help="Do failed trials again.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a large sweep.")
def run(
    spec: Path,
    overrides: tuple[str, ...],
    address: str | None,
    fresh: bool,
    retry_failed: bool,
    yes: bool,
) -> None:
    """Run a sweep, or finish it, and print its report."""
