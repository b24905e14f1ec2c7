"""`rnnsweep parity`: whether two machines compute the same from the same weights."""

# ruff: noqa: PLC0415

import shlex
import signal
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, EXIT_STOPPED, WITH_FAILURES, interrupted_by
from orchestrator.cli.messages import show, show_progress
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal

_NOTES = """
A sweep compares what its arms compute by itself. This command does what a sweep cannot: it
compares two machines that have no sweep in common, and checks that saved weights are portable.
--save trains each implementation that can run on this machine's CPU and GPU (or those given) for
a few steps, and saves its weights and its outputs on validation data. --load has each
implementation of that machine load all saved weights, and prints the largest relative
differences of the outputs. The number of images is a setting: --set validation_samples=32. Exit
code 1 if a difference exceeds its tolerance. After Ctrl-C the results so far are printed, and
what was saved can be loaded.
"""


@command(
    examples=[
        "rnnsweep parity --save weights",
        "rnnsweep parity tensorflow/portable torch/fused --set cell=gru --save weights",
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
@click.option(
    "--save", "into", metavar="DIR", type=options.FILE, help="Save weights and outputs into DIR."
)
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
    """Save weights and outputs here, and compare them on another machine."""
    from orchestrator.diagnostics import parity as checks

    if into is not None and source is not None:
        raise Refusal("expected --save or --load; received both: run the command twice")
    if into is not None:
        if tolerance is not None:
            raise Refusal("--tolerance: expected together with --load; received it with --save")
        check = checks.prepare_saving(implementations, overrides, into)
    elif source is not None:
        check = checks.prepare_comparing(implementations, overrides, source, tolerance)
    else:
        raise Refusal(
            "expected --save DIR, and then --load DIR here or on another machine; received neither"
        )
    with interrupted_by(signal.SIGTERM):  # trainers end, as on Ctrl-C
        try:
            check.run(show_progress)
        except KeyboardInterrupt:
            if not check.finished:
                raise
    if form == "json":
        write(checks.parity_json(check))
    else:
        write(checks.parity_document(check))
    if into is not None and check.saved:
        command = shlex.join(["rnnsweep", "parity", "--load", str(check.folder)])
        show(f"Compare, here or on another machine that has the folder:\n  {command}\n", err=True)
    if not check.is_complete:
        return EXIT_STOPPED
    return COMPLETE if check.is_good else WITH_FAILURES
