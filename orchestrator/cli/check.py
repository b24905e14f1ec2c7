"""`rnnsweep check`: whether a sweep's journal and its store agree."""

# ruff: noqa: PLC0415

import os

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal
from orchestrator.storage import journal
from orchestrator.storage.home import SweepFolder, sweep_home
from orchestrator.storage.tracking.trackers import tracking_uri

_NOTES = """
Exit code 0 if journal and store have the same trials with the same outcomes, 1 if they differ, 2
if one of them cannot be read. Nothing is changed: the next `run` brings both to agree. While the
sweep runs, the trials of the last seconds may be in the journal only.
"""


@command("check", examples=["rnnsweep check quickstart"], notes=_NOTES)
@options.sweep_argument("sweep")
@options.generation_option
@options.json_option
def check_command(sweep: str, generation: int | None, form: str | None) -> int:
    """Compare the journal of a SWEEP with its store; change nothing."""
    from orchestrator.diagnostics.sweep_check import check_document, check_json, check_sweep
    from orchestrator.storage.tracking.reader import read_whole_sweep

    home = sweep_home()
    stored = read_whole_sweep(tracking_uri(home, os.environ), sweep, generation)
    identity = stored.manifest.identity
    folder = SweepFolder(home, identity.name).generation(identity.generation)
    state = journal.read(folder)
    if state is None:
        raise Refusal(
            f"{folder / journal.JOURNAL_FILE}: expected the journal of {identity.label}, received:"
            " no such file. Set RNNSWEEP_HOME to the home that ran it; or run the same command"
            " again, which reads its trials back from the store"
        )
    result = check_sweep(state, stored)
    write(check_json(result) if form == "json" else check_document(result))
    return COMPLETE if result.is_good else WITH_FAILURES
