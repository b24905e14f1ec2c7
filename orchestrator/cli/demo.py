"""`rnnsweep demo`: a run of the quickstart."""

from typing import Any

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.init import sweeps_folder
from orchestrator.cli.run import run

_PARAMS = [param for param in run.params if param.name not in ("spec", "address", "typed")]
"""The options of `run` without those that the demo sets itself."""


@command(examples=["rnnsweep demo"], params=_PARAMS)
@click.pass_context
def demo(context: click.Context, /, overrides: tuple[str, ...], **flags: Any) -> None:
    """Run the quickstart, a sweep of three minutes, and report on it."""
    flags["spec"] = sweeps_folder() / "quickstart.yaml"
    typed = options.start_command("demo", None, overrides)
    context.invoke(run, overrides=overrides, address=None, typed=typed, **flags)
