"""`rnnsweep status`: how far sweeps are, on this machine or on a cluster."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli import options
from orchestrator.cli.cluster_starts import describe_end, expect_start
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal, printable
from orchestrator.core.formats import Format
from orchestrator.core.text import counted, duration
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Submitted
    from orchestrator.report.document import Document

STATUS = Format("the status of sweeps", 2, id="rnnsweep-status")
_LAST_S = datetime.datetime.max.replace(tzinfo=datetime.UTC).timestamp() - 1
"""The last time that has a date: times in a store may have been changed."""

_NOTES = """
Without SWEEP, lists the sweeps in RNNSWEEP_HOME and in MLflow's store, latest first. With SWEEP,
shows its progress from RNNSWEEP_HOME. With --address, shows the sweeps that were submitted to that
cluster.
"""


@command(examples=["rnnsweep status", "rnnsweep status quickstart"], notes=_NOTES)
@options.sweep_argument("sweep", required=False)
@options.dashboard_option()
@options.json_option
def status(sweep: str | None, address: str | None, form: str | None) -> None:
    """List all sweeps, or show the progress of one SWEEP."""
    if address is None:
        _show_status(sweep_home(), sweep, form)
    elif form == "json":
        raise click.UsageError("--format json does not work with --address")
    else:
        show(_describe_submitted(address, sweep))


def _show_status(home: Path, sweep: str | None, form: str | None) -> None:
    """Print the progress of one sweep of this machine, or the list of all."""
    from orchestrator.cli import local
    from orchestrator.storage.tracking.trackers import tracking_uri, without_passwords

    if sweep is not None and form != "json":
        show(printable(local.describe_sweep(home, sweep)))
        return
    store = tracking_uri(home, os.environ)
    if sweep is not None:
        folder = local.expect_sweep(home, sweep)
        rows = [local.sweep_row(folder, folder.latest())]
    else:
        rows = local.sweep_rows(home, store)
    addresses = {"home": str(home), "store": without_passwords(store)}
    if form == "json":
        write({**STATUS.head(), "at_s": time.time(), **addresses, "sweeps": rows})
    else:
        where = f"the home {addresses['home']} and the store {addresses['store']}"
        write(_list(rows, where))


def _list(rows: Sequence[dict[str, Any]], where: str) -> Document:
    """Return a table with a line for each sweep."""
    from orchestrator.report.document import Column, Document, Section, make_table

    def trials(name: str) -> Column[dict[str, Any]]:
        return Column(name, lambda row: row["trials"] and row["trials"][name], numeric=True)

    regenerated = {row["sweep"].partition("#")[0] for row in rows if "#" in row["sweep"]}

    def name(row: dict[str, Any]) -> str:
        """Return the name that other commands take: without a number they read the latest one."""
        return f"{row['sweep']}#1" if row["sweep"] in regenerated else str(row["sweep"])

    columns: list[Column[dict[str, Any]]] = [
        Column("sweep", name),
        Column("state", lambda row: row["state"]),
        *map(trials, ("ended", "expected", "failed")),
        Column("last", lambda row: row["last_s"], show=_time, numeric=False),
        Column("nodes", lambda row: ", ".join(row["nodes"]) or None),
        Column("kept in", lambda row: ", ".join(row["kept_in"])),
    ]
    title = f"{counted(len(rows), 'sweep')} in {where}"
    if not rows:
        hint = "Run one (rnnsweep run quickstart), or set RNNSWEEP_HOME to the folder that has them"
        return Document(title, (Section("", notes=(hint,)),))
    more = "Progress, failures and time left of a sweep: rnnsweep status NAME"
    return Document(title, (Section("", tables=(make_table(columns, rows),), notes=(more,)),))


def _time(at_s: float) -> str:
    at = datetime.datetime.fromtimestamp(min(max(at_s, 0), _LAST_S), datetime.UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _describe_submitted(address: str, sweep: str | None) -> str:
    """Return the latest start of one sweep or of all on a cluster, as lines."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    if sweep is not None:
        latest = [expect_start(cluster, sweep)]
    else:
        latest = list({start.sweep: start for start in cluster.starts()}.values())
    text = "".join(_describe(cluster, start) for start in latest)
    return text or f"no sweeps at {cluster.address}\n"


def _describe(cluster: Cluster, start: Submitted) -> str:
    """Return how far a start is, with the last line of its log, or how it ended."""
    if not start.is_active:
        ago_s = time.time() - start.ended_s if start.ended_s else 0.0
        return f"{start.sweep}: {describe_end(start)} ({start.id}), {duration(ago_s)} ago\n"
    since_s = time.time() - start.started_s if start.started_s else 0.0
    lines = [f"{start.sweep}: {start.state} ({start.id}), for {duration(since_s)}"]
    with contextlib.suppress(Refusal):
        log = [line for line in cluster.log(start.id).splitlines() if line.strip()]
        lines += [f"  {log[-1]}"] if log else []
    return "\n".join(lines) + "\n"
