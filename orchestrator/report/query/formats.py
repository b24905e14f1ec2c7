"""The result of a query as a table for a terminal, as CSV, JSON or Parquet."""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from rich.cells import cell_len

from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.core.trial_columns import Kind
from orchestrator.report.document import visible
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
    plain = frame.astype(object).map(_plain)
    if form == "csv":
        header = list(map(safe, frame.columns))
        return plain.map(safe).to_csv(index=False, header=header, lineterminator="\n").encode()
    body = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "columns": [{"name": name, "kind": _kind(frame, name)} for name in frame],
        "rows": plain.to_dict("records"),
    }
    return (json.dumps(body, indent=1, allow_nan=False) + "\n").encode()


def to_table(frame: pd.DataFrame) -> str:
    """Write aligned columns, one line per row, never folded or cut: for `less -S` and grep.

    Numbers have four significant figures; control characters are shown instead of obeyed.
    """
    padded = []
    for name in frame:
        cells = [visible(name), *map(_shown, frame[name])]
        width = max(map(cell_len, cells))
        gaps = [" " * (width - cell_len(cell)) for cell in cells]
        is_right = _kind(frame, name) in ("whole", "number")
        padded.append([g + c if is_right else c + g for g, c in zip(gaps, cells, strict=True)])
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in zip(*padded, strict=True))


def _kind(frame: pd.DataFrame, name: str) -> Kind:
    return _KINDS[frame[name].dtype.kind]


def _shown(cell: Any) -> str:
    if pd.isna(cell):
        return ABSENT
    if isinstance(cell, float):
        return number(cell)
    if isinstance(cell, pd.Timestamp):
        return f"{cell:%Y-%m-%d %H:%M:%S}"
    return visible(str(cell))


def _plain(cell: Any) -> Any:
    """Return the cell for CSV and JSON: times in ISO 8601, no number that is not finite."""
    if pd.isna(cell) or (isinstance(cell, float) and math.isinf(cell)):
        return None
    if isinstance(cell, pd.Timestamp):
        return cell.isoformat(timespec="milliseconds")
    return bool(cell) if isinstance(cell, np.bool_) else cell
