"""`rnnsweep list`: the sweeps of this machine and of its store."""

# ruff: noqa: PLC0415

import os
from operator import itemgetter

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.output import write
from orchestrator.core.formats import Format
from orchestrator.core.text import counted
from orchestrator.storage.home import sweep_home

SWEEP_LIST = Format("a list of sweeps", 1, id="rnnsweep-list")


@command("list", examples=["rnnsweep list"])
@options.json_option
def list_command(form: str | None) -> None:
    """List the sweeps of this machine and of its store, latest first."""
    from orchestrator.cli import local
    from orchestrator.report.document import Column, Document, Section, make_table
    from orchestrator.storage.tracking.trackers import tracking_uri, without_passwords

    home = sweep_home()
    store = tracking_uri(home, os.environ)
    sweeps = local.sweep_rows(home, store)
    places = {"home": str(home), "store": without_passwords(store)}
    if form == "json":
        write({**SWEEP_LIST.head(), **places, "sweeps": sweeps})
        return
    columns = [
        Column(name.replace("_", " "), itemgetter(name), show=_cell, numeric=isinstance(cell, int))
        for name, cell in (sweeps[0] if sweeps else {}).items()
    ]
    section = Section("Sweeps", tables=(make_table(columns, sweeps),) if sweeps else ())
    where = f"the home {home} and the store {without_passwords(store)}"
    title = f"{counted(len(sweeps), 'sweep')} in {where}"
    write(Document(title, (section,)))


def _cell(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
