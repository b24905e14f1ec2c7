"""`rnnsweep hardware`: the hardware classes of a machine or a cluster."""

# ruff: noqa: PLC0415

import contextlib

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE
from orchestrator.cli.output import write

_NOTES = "A class is a set of equal nodes, or of equal GPUs."


@command(examples=["rnnsweep hardware --format json"], notes=_NOTES)
@options.address_option
@options.json_option
def hardware(address: str | None, form: str | None) -> int:
    """Show the hardware of this machine or of a cluster, by class."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics.hardware_listing import hardware_document, hardware_json
    from orchestrator.hardware import classify

    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            nodes = stack.enter_context(connection.connect(address))
        classes = classify(nodes)
    write(hardware_json(classes) if form == "json" else hardware_document(classes))
    return COMPLETE
