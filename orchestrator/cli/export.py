"""`rnnsweep export`: a sweep as files that other programs read."""

# ruff: noqa: PLC0415

import os
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal
from orchestrator.core.text import counted
from orchestrator.storage import journal
from orchestrator.storage.home import SweepFolder, sweep_home
from orchestrator.storage.tracking.trackers import tracking_uri

_NOTES = """
The sweep is read from the store. Where its journal is in this home, trials get the curves of the
machine's load from there. DIRECTORY must be new or empty; export.json in it lists the files, and
is written last.
"""


@command(examples=["rnnsweep export quickstart quickstart-export"], notes=_NOTES)
@options.sweep_argument("sweep")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@options.generation_option
def export(sweep: str, directory: Path, generation: int | None) -> None:
    """Write a SWEEP to DIRECTORY as documented JSON and Parquet."""
    from orchestrator.report.export import export_sweep
    from orchestrator.storage.tracking.reader import read_whole_sweep

    home = sweep_home()
    stored = read_whole_sweep(tracking_uri(home, os.environ), sweep, generation)
    record = stored.record
    folder = SweepFolder(home, record.name).generation(record.generation)
    try:
        state = journal.read(folder)
    except (Refusal, OSError) as error:
        show(f"Warning: no curves from the journal: {error}\n", err=True)
        state = None
    is_own = state is not None and state.sweep_id == stored.sweep_id
    kept = state.finished if state is not None and is_own else {}
    names = export_sweep(record, stored.manifest, directory, spec_yaml=stored.spec_yaml, kept=kept)
    trials = counted(len(record.trials), "trial")
    show(f"wrote {trials} to {directory}: {', '.join(names)}\n", err=True)
