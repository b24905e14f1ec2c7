"""`rnnsweep hardware`: the hardware classes of this machine or of a cluster, and their peaks."""

# ruff: noqa: PLC0415

import contextlib
import signal

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES, interrupted_by
from orchestrator.cli.messages import show_progress
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home

_NOTES = """
A class is a set of equal nodes, or of equal GPUs. With --measure the peak speeds of one node of
each class are measured: a matrix product and a copy by each installed backend, in float32,
bfloat16 and, on a GPU, TF32. That takes about a minute. The results are kept until a backend
has another version. Exit code 1 if a class could not be measured.
"""


@command(examples=["rnnsweep hardware --measure"], notes=_NOTES)
@options.address_option
@click.option(
    "--measure", is_flag=True, help="Measure the peak speeds of each class that has none yet."
)
@click.option("--fresh", is_flag=True, help="With --measure: measure all classes once more.")
@options.json_option
def hardware(address: str | None, measure: bool, fresh: bool, form: str | None) -> int:
    """Show the hardware of this machine or of a cluster, by class."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import peaks
    from orchestrator.diagnostics.hardware_listing import hardware_document, hardware_json
    from orchestrator.hardware import classify

    if fresh and not measure:
        raise Refusal("--fresh: expected together with --measure; received it alone")
    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            nodes = stack.enter_context(connection.connect(address))
        classes = classify(nodes)
        if measure:
            with interrupted_by(signal.SIGTERM):
                measured, failures = peaks.peaks_of_classes(
                    classes, sweep_home(), show_progress, fresh=fresh
                )
        else:
            measured, failures = peaks.stored_peaks(sweep_home(), classes), ()
    if form == "json":
        write(hardware_json(classes, measured))
    else:
        write(hardware_document(classes, measured))
    return WITH_FAILURES if failures else COMPLETE
