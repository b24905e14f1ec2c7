"""`rnnsweep query`: trials as a table, by conditions or statements in SQL."""

# ruff: noqa: PLC0415

import os
from pathlib import Path
from typing import Any

import click

from orchestrator.cli import options
from orchestrator.cli.cluster_starts import fetch_output
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.cli.output import write_output
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking.trackers import tracking_uri

_FORMATS = {"table": ".txt", "csv": ".csv", "json": ".json", "parquet": ".parquet"}

_NOTES = """
Conditions and statements are DuckDB's SQL; the trials of SWEEP are the table `trials`. Put text in
single quotes, and column names with unusual characters in double quotes. Times are in UTC. A query
cannot read files or use the network.
"""


@command(
    examples=[
        "rnnsweep query quickstart \"hardware LIKE '%H200%' AND val_accuracy > 0.97\""
        " --sort step_ms",
        "rnnsweep query quickstart --columns arm,units,step_ms -o trials.parquet",
        'rnnsweep query quickstart --sql "SELECT arm, median(step_ms) FROM trials GROUP BY ALL"',
    ],
    notes=_NOTES,
)
@options.sweep_argument("sweep")
@click.argument("where", required=False, default="")
@click.option(
    "--sql", metavar="SELECT…", default="", help="Print the result of this SQL statement instead."
)
@click.option(
    "--columns",
    "column_names",
    metavar="A,B,…",
    help="Print these columns in this order; `config` stands for the searched parameters, `all`"
    " for everything.",
)
@click.option(
    "--sort",
    "sort_names",
    metavar="A,-B,…",
    help="Sort by these columns; a leading - reverses the order.",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=0), help="Print at most N rows.")
@click.option("--list", "lists_columns", is_flag=True, help="List all columns.")
@options.dashboard_option()
@options.output_options(_FORMATS)
def query(  # noqa: PLR0913  (its options)
    *,
    sweep: str,
    where: str,
    sql: str,
    column_names: str | None,
    sort_names: str | None,
    limit: int | None,
    lists_columns: bool,
    address: str | None,
    form: Any,
    path: Path | None,
) -> None:
    """Print the trials of SWEEP that match WHERE, or the result of SQL."""
    from orchestrator.report.query import (
        as_bytes,
        param_columns,
        query_records,
        usual_columns,
    )
    from orchestrator.storage.tracking.reader import read_rows

    has_conditions = where or column_names or sort_names or limit is not None
    if sql and has_conditions:
        raise Refusal(
            "--sql excludes WHERE, --columns, --sort and --limit: write them into the statement"
        )
    form = form or options.usual_form(path, _FORMATS)
    options.expect_no_terminal(form, path, sweep)
    if address is not None:
        if form == "parquet":
            raise Refusal("--format parquet does not work with --address: use csv or json")
        words = [
            f"--format={form}",
            *([f"--sql={sql}"] if sql else []),
            *([f"--columns={column_names}"] if column_names else []),
            *([f"--sort={sort_names}"] if sort_names else []),
            *([f"--limit={limit}"] if limit is not None else []),
            *(["--list"] if lists_columns else []),
            *([where] if where else []),
        ]
        write_output(fetch_output(address, "query", sweep, words), path)
        return
    record, rows = read_rows(tracking_uri(sweep_home(), os.environ), sweep)
    wanted = _names(column_names)
    if _CONFIG in wanted:
        index = wanted.index(_CONFIG)
        wanted[index : index + 1] = param_columns(rows)
        wanted = list(dict.fromkeys(wanted))
    columns = None if lists_columns or wanted in ([], ["all"]) else wanted
    result = query_records(
        record,
        where,
        columns,
        sort=_names(sort_names),
        rows=rows,
        limit=limit,
        sql=sql,
        lists=lists_columns,
    )
    if not (wanted or sql or lists_columns) and form == "table":
        result = result[usual_columns(record, rows, list(result))]
    about: dict[str, Any] = {
        "sweep": record.name,
        "generation": record.generation,
    }
    if sql:
        about["sql"] = sql
    else:
        about["where"] = where
    write_output(as_bytes(result, form, about), path)
    if not len(rows):
        show("no trial of this sweep has ended yet\n", err=True)
    elif not sql and not lists_columns and (form == "table" or not len(result)):
        show(f"{len(result)} of {len(rows)} trials\n", err=True)


_CONFIG = "config"
"""The name of all params that configs vary, among columns."""


def _names(text: str | None) -> list[str]:
    return list(dict.fromkeys(name for part in (text or "").split(",") if (name := part.strip())))
