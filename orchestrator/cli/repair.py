"""`rnnsweep repair`: a journal without its damaged lines."""

# ruff: noqa: PLC0415

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.core.text import counted
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
    from orchestrator.cli.local import expect_sweep
    from orchestrator.storage.journal import repair_journal

    folder = expect_sweep(sweep_home(), sweep)
    try:
        repaired = repair_journal(folder.generation(folder.latest()))
    except FileNotFoundError:
        show(f"{sweep} has no journal: `rnnsweep run` reads its trials back from MLflow\n")
        return
    if repaired is None:
        show(f"no line of the journal of {sweep} is damaged\n")
        return
    kept, lines = repaired
    show(
        f"{counted(lines, 'damaged line')} of {sweep} removed; the old journal is {kept}.\n"
        "Run the same `rnnsweep run` command: it reads finished trials back from MLflow\n"
    )
