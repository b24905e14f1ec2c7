"""`rnnsweep workloads`: the workloads, their settings, and what runs here."""

# ruff: noqa: PLC0415

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal


@command(
    examples=["rnnsweep workloads image_rows --set cell=gru"],
    notes="Without NAME, each has a line. `--format json` has all that `--full` has.",
)
@click.argument("name", required=False)
@options.set_option("Show what runs with this setting of NAME, such as cell=gru; may be repeated.")
@click.option("--full", is_flag=True, help="Describe all workloads, and what each kernel supports.")
@options.json_option
def workloads(
    name: str | None, overrides: tuple[str, ...], *, full: bool, form: str | None
) -> None:
    """List the workloads and their settings, or describe one."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import workload_catalogue as catalogue
    from orchestrator.hardware import classify

    if overrides and name is None:
        raise Refusal(
            "--set: expected a workload before it, as in rnnsweep workloads NAME --set KEY=VALUE"
        )
    classes = classify(connection.this_machine())
    listing = catalogue.Catalogue(classes)
    if name:
        listing = catalogue.workload_catalogue(name, overrides, classes)
    if form == "json":
        write(catalogue.catalogue_json(listing))
    elif full or name:
        write(catalogue.catalogue_document(listing))
    else:
        write(catalogue.overview_document(listing))
