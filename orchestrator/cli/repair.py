"""`rnnsweep repair`: a journal without its damaged lines."""

# ruff: noqa: PLC0415

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.storage.home import sweep_home

_NOTES = """
For a journal that a command refuses as damaged, after a fault of the disk for example. The old
file is kept next to the new one. The next start of the sweep reads from MLflow what the removed
lines had.
"""


@command(examples=["rnnsweep repair quickstart"], notes=_NOTES)
@options.sweep_argument("sweep")
def repair(sweep: str) -> None:
    """Remove the damaged lines of a SWEEP's journal."""
    from orchestrator.cli import local

    show(local.repair_sweep(sweep_home(), sweep))
