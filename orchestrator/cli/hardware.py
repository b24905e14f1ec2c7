"""`rnnsweep hardware`: the hardware classes of a machine or a cluster, and the peaks of GPUs."""

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

_NOTES = """
A class is a set of equal nodes, or of equal GPUs. With --measure the peak speeds of one GPU of
each class are measured: a matrix product and a copy by each installed backend, in float32,
bfloat16 and TF32. That takes about a minute. Exit code 1 if a class could not be measured.
"""


@command(examples=["rnnsweep hardware --measure"], notes=_NOTES)
@options.address_option
@click.option("--measure", is_flag=True, help="Measure the peak speeds of each class of GPUs.")
@options.json_option
def hardware(address: str | None, measure: bool, form: str | None) -> int:
    """Show the hardware of this machine or of a cluster, by class."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import peaks
    from orchestrator.diagnostics.hardware_listing import hardware_document, hardware_json
    from orchestrator.hardware import classify

    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            nodes = stack.enter_context(connection.connect(address))
        classes = classify(nodes)
        measured: tuple[peaks.Peak, ...] = ()
        failures: tuple[str, ...] = ()
        if measure:
            if not any(item.device == "gpu" for item in classes):
                raise Refusal("--measure: expected a GPU; received hardware without one")
            with interrupted_by(signal.SIGTERM):
                measured, failures = peaks.peaks_of_classes(classes, show_progress)
    if form == "json":
        write(hardware_json(classes, measured))
    else:
        write(hardware_document(classes, measured))
    return WITH_FAILURES if failures else COMPLETE
