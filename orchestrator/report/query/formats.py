"""The result of a query as a table for a terminal, as CSV, JSON or Parquet."""

from __future__ import annotations

import json
import math
from io import BytesIO
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from rich.cells import cell_len

from orchestrator.core.trial_columns import Kind
from orchestrator.report.document import Column, make_table, plain, visible
from orchestrator.report.formats.csv_rows import safe

SheetFormat: TypeAlias = Literal["table", "csv", "json", "parquet"]

FORMAT = "rnnsweep-query"
VERSION = 2

_KINDS: dict[str, Kind] = {"i": "whole", "f": "number", "O": "text", "b": "truth", "M": "time"}


def as_bytes(frame: pd.DataFrame, form: SheetFormat, about: dict[str, Any]) -> bytes:
    """Write the result in a format; `about`, the query, is only added to JSON."""
    if form == "parquet":
        out = BytesIO()
        frame.to_parquet(out, engine="pyarrow", index=False)
        return out.getvalue()
    if form == "table":
        return to_table(frame).encode()
    cells = frame.astype(object).map(_plain)
    if form == "csv":
        header = list(map(safe, frame.columns))
        return cells.map(safe).to_csv(index=False, header=header, lineterminator="\n").encode()
    body = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "columns": [{"name": name, "kind": _kind(frame, name)} for name in frame],
        "rows": cells.to_dict("records"),
    }
    return (json.dumps(body, indent=1, allow_nan=False) + "\n").encode()


def to_table(frame: pd.DataFrame) -> str:
    """Write aligned columns, one line per row, never folded or cut: for `less -S` and grep.

    Numbers have four significant figures; control characters are shown instead of obeyed.
    """
    columns = [
        Column(name, itemgetter(i), show=_shown, numeric=_kind(frame, name) in ("whole", "number"))
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


def _kind(frame: pd.DataFrame, name: str) -> Kind:
    return _KINDS[frame[name].dtype.kind]


def _shown(cell: Any) -> str:
    return f"{cell:%Y-%m-%d %H:%M:%S}" if isinstance(cell, pd.Timestamp) else plain(cell)


def _plain(cell: Any) -> Any:
    """Return the cell for CSV and JSON: times in ISO 8601, no number that is not finite."""
    if pd.isna(cell) or (isinstance(cell, float) and math.isinf(cell)):
        return None
    if isinstance(cell, pd.Timestamp):
        return cell.isoformat(timespec="milliseconds")
    return bool(cell) if isinstance(cell, np.bool_) else cell
