"""A sheet as a table for a terminal, as CSV, as JSON, or as a Parquet file."""

from __future__ import annotations

import csv
import json
import math
from datetime import datetime
from io import BytesIO, StringIO
from typing import Any, Literal, TypeAlias

from rich.cells import cell_len

from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.report.document import visible
from orchestrator.report.formats.csv_rows import safe
from orchestrator.report.query.asking import to_frame
from orchestrator.report.query.table import Cell, Sheet, SheetColumn

SheetFormat: TypeAlias = Literal["table", "csv", "json", "parquet"]

FORMAT = "rnnsweep-query"
VERSION = 1

_GAP = "  "


def as_bytes(sheet: Sheet, form: SheetFormat, about: dict[str, Any]) -> bytes:
    """Write the sheet in a format; `about`, the query, is only added to JSON."""
    if form == "parquet":
        out = BytesIO()
        to_frame(sheet).to_parquet(out, engine="pyarrow", index=False)
        return out.getvalue()
    if form == "csv":
        text = to_csv(sheet)
    else:
        text = to_json(sheet, about) if form == "json" else to_table(sheet)
    return text.encode(errors="backslashreplace")  # a name may hold a lone surrogate


def to_table(sheet: Sheet) -> str:
    """Write aligned columns, one line per trial, never folded or cut: for `less -S` and grep.

    Numbers have four significant figures; control characters are shown instead of obeyed.
    """
    columns = [
        [visible(column.name), *(_shown(row[index]) for row in sheet.rows)]
        for index, column in enumerate(sheet.columns)
    ]
    padded = [
        _padded(cells, right=column.kind in ("whole", "number"))
        for column, cells in zip(sheet.columns, columns, strict=True)
    ]
    lines = [_GAP.join(row).rstrip() for row in zip(*padded, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def to_csv(sheet: Sheet) -> str:
    """Write a header and one row per trial, as in a report's CSV; missing values are empty."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(safe, sheet.names))
    for row in sheet.rows:
        writer.writerow([safe(_written(cell)) for cell in row])
    return out.getvalue()


def to_json(sheet: Sheet, about: dict[str, Any]) -> str:
    """Write one versioned object as ASCII; numbers are finite or null."""
    body = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "columns": [
            {"name": column.name, "kind": column.kind, "part": column.part}
            for column in sheet.columns
        ],
        "rows": [dict(zip(sheet.names, map(_plain, row), strict=True)) for row in sheet.rows],
    }
    return json.dumps(body, indent=1, allow_nan=False) + "\n"


def to_listing(sheet: Sheet) -> str:
    """List the columns: their part and kind, the number of trials with a value, and the range."""
    columns = (
        SheetColumn("column", "text", "trial"),
        *(SheetColumn(name, "text", "trial") for name in ("part", "kind", "trials", "range")),
    )
    rows = [
        (column.name, column.part, column.kind, f"{len(cells)} of {len(sheet.rows)}", _range(cells))
        for index, column in enumerate(sheet.columns)
        for cells in [[row[index] for row in sheet.rows if row[index] is not None]]
    ]
    return to_table(Sheet(tuple(columns), tuple(rows)))


def _range(cells: list[Any]) -> str:
    if not cells:
        return ABSENT
    low, high = _shown(min(cells)), _shown(max(cells))
    text = low if low == high else f"{low} … {high}"
    return text if len(text) <= 72 else f"{text[:71]}…"


def _padded(cells: list[str], *, right: bool) -> list[str]:
    wide = max(map(cell_len, cells))
    blanks = [" " * (wide - cell_len(cell)) for cell in cells]
    return [
        blank + cell if right else cell + blank for cell, blank in zip(cells, blanks, strict=True)
    ]


def _shown(cell: Cell) -> str:
    if cell is None:
        return ABSENT
    if isinstance(cell, float):
        return number(cell)
    if isinstance(cell, datetime):
        return f"{cell:%Y-%m-%d %H:%M:%S}"
    return visible(str(cell).lower() if isinstance(cell, bool) else str(cell))


def _written(cell: Cell) -> str | int | float | None:
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="milliseconds")
    return str(cell).lower() if isinstance(cell, bool) else cell


def _plain(cell: Cell) -> bool | int | float | str | None:
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell.isoformat(timespec="milliseconds") if isinstance(cell, datetime) else cell
