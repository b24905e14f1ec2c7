"""SQL over the trials of a sweep, a table in memory that reaches nothing else, and its formats."""

import csv
import difflib
import json
import math
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import BytesIO, StringIO
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len

from orchestrator.core import trial_columns
from orchestrator.core.errors import Refusal
from orchestrator.core.formats import Format
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial_columns import CellKind
from orchestrator.report.document import Column, cell_text, make_table, visible
from orchestrator.storage.tracking.trial_table import CONFIG, METRIC, to_array, to_rows
from workloads.metrics import METRICS

_SANDBOX: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,  # no files, no network, no data of the calling program
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}
_UNKNOWN = re.compile(r'Referenced (?:column|table) "(.*?)" not found|a column named "(.*?)"')
_DTYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.string(): pd.StringDtype(),
    pa.bool_(): pd.BooleanDtype(),
}
_BATCH_ROWS = 50_000
_FIRST, _LAST = datetime.min, datetime.max  # the times that Python can show
_OF_SWEEP = ("sweep", "generation", "workload")

_LIST = """SELECT column_name AS "column", column_type AS type,
CAST(round(count * (1 - null_percentage / 100)) AS BIGINT) AS rows,
left(min, 40) AS min, left(max, 40) AS max FROM"""


_MEMORY_MIB = 2048
"""The memory that DuckDB may use for a query."""
_RESULT_MIB = 256
"""The largest result: as Python's objects, and as text, it takes several times as much."""


class QueryError(Refusal, ValueError):
    """A query that cannot run; the message shows the line, with carets below the position."""

    __module__ = "rnnsweep"


def query_records(  # noqa: PLR0913
    record: SweepRecord,
    where: str = "",
    columns: Sequence[str] | None = None,
    *,
    sort: Sequence[str] = (),
    limit: int | None = None,
    sql: str = "",
    lists: bool = False,
    rows: pa.Table | None = None,
) -> pd.DataFrame:
    """Return the result of a query of a sweep; see `orchestrator.api.query`.

    With `lists` it is a list of the result's columns: name, type, rows with a value, and range. A
    possible metric that no trial has can be named, and any column if no trial has ended. `rows` are
    the rows of a sweep that was read as such, without its trials.
    """
    table = trial_table(record, rows)
    names = table.column_names
    while True:
        try:
            if not sql:
                _check_single(f"SELECT\n{where or 'true'}")
            query = sql or _select(columns or names, where, sort, limit)
            return _run(f"{_LIST} (SUMMARIZE {query}\n)" if lists else query, table)
        except duckdb.OutOfMemoryException as error:
            raise QueryError(
                f"the query needs more than {_MEMORY_MIB:,} MiB; let it read fewer rows"
            ) from error
        except duckdb.Error as error:
            match = _UNKNOWN.search(str(error))
            if match is None:
                raise QueryError(_readable(error)) from error
            name = match[1] or match[2]
            is_possible = not table.num_rows or name in _possible_metrics(record)
            if name in table.column_names or not is_possible:
                raise QueryError(_unknown_column(name, names)) from error
            table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))


def trial_table(record: SweepRecord, rows: pa.Table | None = None) -> pa.Table:
    """Return all trials of a sweep, with their columns, params (all settings) and metrics.

    `rows` are the trials as `to_rows` makes them, by default out of the record. A param or metric
    whose name is taken becomes `config.NAME` or `metric.NAME`.
    """
    columns = _with_settings(record, to_rows(record.trials) if rows is None else rows)
    arrays = dict[str, Any]()
    for name in (*_OF_SWEEP, *(column.name for column in trial_columns.COLUMNS)):
        # Rows of an earlier version may lack a column.
        arrays[name] = columns.get(name, pa.nulls(len(columns["sweep"]), pa.string()))
    prefixes: dict[Literal["config", "metric"], str] = {"config": CONFIG, "metric": METRIC}
    for kind, prefix in prefixes.items():
        for name in sorted(name for name in columns if name.startswith(prefix)):
            free = trial_columns.free_name(name.removeprefix(prefix), kind, arrays)
            arrays[free] = columns[name]
    return pa.table(arrays)


def _with_settings(record: SweepRecord, rows: pa.Table) -> dict[str, Any]:
    """Return the columns of a sweep's rows, of the sweep itself and of its fixed settings."""
    columns: dict[str, Any] = {name: rows[name] for name in rows.column_names}
    fixed = {CONFIG + name: value for name, value in record.settings.items()}
    of_sweep = (record.name, record.generation, record.workload)
    for name, value in (*zip(_OF_SWEEP, of_sweep, strict=True), *fixed.items()):
        if name in columns:  # variants have other values
            cells = columns[name].to_pylist()
            columns[name] = to_array([value if cell is None else cell for cell in cells])
        elif type(value) in (bool, int, float, str):
            columns[name] = pa.repeat(to_array([value])[0], len(rows))
    return columns


def param_columns(rows: pa.Table) -> list[str]:
    """Return the columns of the params that a sweep's configs have, of its rows."""
    names = (name for name in rows.column_names if name.startswith(CONFIG))
    return sorted(name.removeprefix(CONFIG) for name in names)


def usual_columns(record: SweepRecord, rows: pa.Table, names: Sequence[str]) -> list[str]:
    """Return the columns to show by default: config, outcome, objectives and main metrics."""
    tried = param_columns(rows)
    wanted = ["block", "repeat"] if len(rows["repeat"].unique()) > 1 else ["block"]
    wanted += ["variant"] if any(arm.variant for arm in record.arms) else []
    wanted += ["implementation", "hardware", *(name for name in names if name in tried)]
    wanted += ["outcome", *record.objectives, "step_ms", "val_accuracy"]
    return [name for name in dict.fromkeys(wanted) if name in names]


def _run(query: str, table: pa.Table) -> pd.DataFrame:
    """Run a query on the table `trials`."""
    config = _SANDBOX | {"memory_limit": f"{_MEMORY_MIB}MiB"}
    with duckdb.connect(config=config) as database, ThreadPoolExecutor(1) as thread:
        database.register("arrow", table)
        database.execute("CREATE TABLE trials AS FROM arrow; SET TimeZone = 'UTC'")
        database.execute("SET lock_configuration = true")
        _check_single(query)
        # `*` numbers columns of one name. A thread, because DuckDB does not notice Ctrl-C itself.
        running = thread.submit(
            lambda: _read(database.sql(query).project("*").to_arrow_reader(_BATCH_ROWS))
        )
        try:
            result = running.result()
        except KeyboardInterrupt:
            database.interrupt()
            raise
    typed = pa.table(list(map(_cast, result.columns)), names=result.column_names)
    return typed.to_pandas(types_mapper=_DTYPES.get)


def _read(batches: pa.RecordBatchReader) -> pa.Table:
    """Read a result, up to its limit: DuckDB's own limit does not hold for what it hands out."""
    read, size = list[pa.RecordBatch](), 0
    for batch in batches:
        read.append(batch)
        size += batch.nbytes
        if size > _RESULT_MIB * 2**20:
            raise QueryError(f"the result has more than {_RESULT_MIB} MiB; add a LIMIT")
    return pa.Table.from_batches(read, batches.schema)


def _check_single(query: str) -> None:
    """Check that a text is one SELECT statement (or PIVOT, which DuckDB counts as several)."""
    if any("\ud800" <= char <= "\udfff" for char in query):
        raise QueryError("a query is text in UTF-8; received other bytes")
    kinds = [statement.type.name for statement in duckdb.extract_statements(query)]
    if kinds not in (["SELECT"], ["MULTI"]):
        raise QueryError(
            "a query is one SELECT statement, or one condition, on the table trials; received "
            f"{', '.join(kinds) or 'nothing'}"
        )


def _select(columns: Sequence[str], where: str, sort: Sequence[str], limit: int | None) -> str:
    """Return the statement of a condition; rows that sort equally stay in their order."""
    orders = [
        f"{_quoted(key.removeprefix('-'))} {'DESC' if key.startswith('-') else 'ASC'} NULLS LAST"
        for key in sort
    ]
    return (
        f"SELECT {', '.join(map(_quoted, columns))} FROM trials WHERE (\n{where or 'true'}\n) "
        f"ORDER BY {', '.join([*orders, 'rowid'])} LIMIT {'ALL' if limit is None else limit}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cast(column: Any) -> Any:
    """Return a column of a result in one of our types; lists, intervals and others as text."""
    of, types = column.type, pa.types
    if types.is_integer(of) and of != pa.uint64():
        return column.cast(pa.int64())
    if types.is_integer(of) or types.is_floating(of) or types.is_decimal(of):
        return column.cast(pa.float64(), safe=False)  # rounded, as every number beyond 2**53 is
    if types.is_timestamp(of):
        utc = pa.timestamp("ms", "UTC")
        times = column.cast(pa.timestamp("ms", of.tz), safe=False).cast(utc)
        first, last = (pa.scalar(limit.replace(tzinfo=UTC), utc) for limit in (_FIRST, _LAST))
        is_in_range = pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last))
        return pc.if_else(
            is_in_range, times, pa.scalar(None, utc)
        )  # infinity, years of five digits
    if types.is_boolean(of) or types.is_string(of):
        return column
    return pa.array([None if cell is None else str(cell) for cell in column.to_pylist()], "string")


def _possible_metrics(record: SweepRecord) -> set[str]:
    """Return the metrics that trials of a sweep can have, whether or not any has them."""
    return {*record.objectives, *(metric.name for metric in METRICS if metric.is_of_trials)}


def _unknown_column(name: str, columns: Sequence[str]) -> str:
    lower = {column.lower(): column for column in columns}
    close = [lower[column] for column in difflib.get_close_matches(name.lower(), lower, n=3)]
    close += [column for column in columns if column.startswith(f"{name}.")]
    near = dict.fromkeys(c if c.isidentifier() else _quoted(c) for c in close)
    hint = f"; did you mean {' or '.join(near)}?" if near else ". A text is in single quotes."
    return f"no column {visible(name)!r}{hint} `rnnsweep query SWEEP --list` lists all columns"


def _readable(error: duckdb.Error) -> str:
    """Return the problem, and the line and the position that DuckDB reports."""
    head, _, context = str(error).partition("\n\nLINE ")
    problem, *_ = re.sub(r"^\w+ Error: ", "", head).split("\n\tCandidate ")  # functions: a page
    problem = visible(problem)
    line, _, carets = context.partition("\n")
    number, _, code = line.partition(": ")
    shown = "".join(char if char.isprintable() else " " for char in code)
    return f"{problem}\n  {shown}\n  {carets[len('LINE : ' + number) :]}" if context else problem


SheetFormat: TypeAlias = Literal["table", "csv", "json", "parquet"]

QUERY = Format("the result of a query", 2, id="rnnsweep-query")

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")

_KINDS: dict[str, CellKind] = {"i": "whole", "f": "number", "O": "text", "b": "truth", "M": "time"}


def as_bytes(frame: pd.DataFrame, form: SheetFormat, about: dict[str, Any]) -> bytes:
    """Write the result in a format; `about`, the query, is only added to JSON."""
    if form == "parquet":
        out = BytesIO()
        frame.to_parquet(out, engine="pyarrow", index=False)
        return out.getvalue()
    if form == "table":
        return to_table(frame).encode()
    # Rows of Python objects: a column of a frame would turn None next to numbers into NaN.
    rows = [[_plain(cell) for cell in row] for row in frame.astype(object).to_numpy()]
    if form == "csv":
        text = StringIO()
        sheet = csv.writer(text, lineterminator="\n")
        sheet.writerow(map(_safe, frame.columns))
        sheet.writerows([_safe(cell) for cell in row] for row in rows)
        return text.getvalue().encode()
    body = {
        **QUERY.head(),
        **about,
        "columns": [{"name": name, "kind": _kind_of(frame, name)} for name in frame],
        "rows": [dict(zip(frame.columns, row, strict=True)) for row in rows],
    }
    return (json.dumps(body, indent=1, allow_nan=False) + "\n").encode()


def to_table(frame: pd.DataFrame) -> str:
    """Write aligned columns, one line per row, never folded or cut: for `less -S` and grep.

    Numbers have four significant figures; control characters are shown instead of obeyed.
    """
    columns = [
        Column(
            name, itemgetter(i), show=_shown, numeric=_kind_of(frame, name) in ("whole", "number")
        )
        for i, name in enumerate(frame)
    ]
    table = make_table(columns, frame.astype(object).where(frame.notna(), None).to_numpy())
    padded = []
    for i, raw in enumerate(zip(table.headers, *table.rows, strict=True)):
        cells = [visible(cell) for cell in raw]
        width = max(map(cell_len, cells))
        gaps = [" " * (width - cell_len(cell)) for cell in cells]
        right = i in table.numeric
        padded.append([g + c if right else c + g for g, c in zip(gaps, cells, strict=True)])
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in zip(*padded, strict=True))


def _kind_of(frame: pd.DataFrame, name: str) -> CellKind:
    return _KINDS[frame[name].dtype.kind]


def _shown(cell: Any) -> str:
    return f"{cell:%Y-%m-%d %H:%M:%S}" if isinstance(cell, pd.Timestamp) else cell_text(cell)


def _plain(cell: Any) -> Any:
    """Return the cell for CSV and JSON: times in ISO 8601, no number that is not finite."""
    if pd.isna(cell) or (isinstance(cell, float) and math.isinf(cell)):
        return None
    if isinstance(cell, pd.Timestamp):
        return cell.isoformat(timespec="milliseconds")
    return bool(cell) if isinstance(cell, np.bool_) else cell


def _safe(cell: Any) -> Any:
    """Return a cell for CSV that no spreadsheet reads as a formula."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, str):
        text = "\n".join(re.split("\r\n?", cell))  # the csv module leaves a lone \r unquoted
        return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text
    return cell
