"""`rnnsweep parity`: whether implementations agree on the same weights."""

# ruff: noqa: PLC0415

import shlex
import signal
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES, interrupted_by
from orchestrator.cli.messages import show, show_progress
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal

_NOTES = """
Each implementation that can run on this machine's CPU and GPU (or those given) trains for a few
steps, and saves its weights and its outputs on validation data. Then each loads the weights of
all others, and the largest relative differences of the outputs are printed. The number of images
is a setting: --set validation_samples=32. Exit code 1 if a difference exceeds its tolerance. Use
--save here and --load there to compare two machines.
"""


@command(
    examples=[
        "rnnsweep parity tensorflow/portable torch/fused --set cell=gru",
        "rnnsweep parity --save weights",
        "rnnsweep parity --load weights",
    ],
    notes=_NOTES,
)
@click.argument("implementations", metavar="[IMPLEMENTATION]...", nargs=-1)
@options.set_option(
    "Use this setting of image_rows, such as cell=gru; by default all cells; may be repeated."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, min_open=True),
    help="Allow relative differences up to this; by default what the precisions explain.",
)
@click.option("--save", "into", metavar="DIR", type=options.FILE, help="Save into DIR and stop.")
@click.option(
    "--load",
    "source",
    metavar="DIR",
    type=options.FILE,
    help="Load what --save wrote, here or on another machine, and compare.",
)
@options.json_option
def parity(
    implementations: tuple[str, ...],
    overrides: tuple[str, ...],
    tolerance: float | None,
    into: Path | None,
    source: Path | None,
    form: str | None,
) -> int:
    """Check that implementations agree on the same weights."""
    from orchestrator.diagnostics import parity as checks

    if into is not None and source is not None:
        raise Refusal("expected --save or --load; received both: run the command twice")
    with interrupted_by(signal.SIGTERM):  # trainers and temporary files go, as on Ctrl-C
        result = checks.check(
            implementations,
            overrides,
            show_progress,
            tolerance=tolerance,
            into=into,
            source=source,
        )
    if form == "json":
        write(checks.parity_json(result))
    else:
        write(checks.parity_document(result))
    if result.kept_in:
        command = shlex.join(["rnnsweep", "parity", "--load", str(result.kept_in)])
        show(f"Compare, here or on another machine that has the folder:\n  {command}\n", err=True)
    return COMPLETE if result.is_good else WITH_FAILURES
