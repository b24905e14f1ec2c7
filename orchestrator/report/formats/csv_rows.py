"""The trials of a summary as tidy CSV: one row per trial, for spreadsheets and data frames."""

import csv
import math
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from io import StringIO

from orchestrator.core.trial import FinishedTrial
from orchestrator.core.trial_columns import COLUMNS, config_names, free_name, metric_names

HEADER = (*(column.name for column in COLUMNS), "matched")
"""The columns of every row, named as in queries. `matched` is true in a complete round."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")

CsvCell = bool | str | int | float | None


def to_csv(trials: Sequence[FinishedTrial], matched: Collection[str]) -> str:
    """Return a header and one row per trial, with the columns of `csv_columns`.

    Missing values and numbers that are not finite are empty. Text that a spreadsheet would take for
    a formula begins with `'`; its line breaks are `\\n`.
    """
    columns = csv_columns(trials, matched)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(safe, columns))
    writer.writerows(map(safe, row) for row in zip(*columns.values(), strict=True))
    return out.getvalue()


def csv_columns(
    trials: Sequence[FinishedTrial], matched: Collection[str]
) -> dict[str, list[CsvCell]]:
    """Return the cells of each column: the fixed columns, config sorted, metrics sorted.

    A setting or metric whose name is taken becomes `config.NAME` or `metric.NAME`. `matched` are
    the run ids of complete rounds.
    """
    columns: dict[str, list[CsvCell]] = {
        column.name: [_cell(column.kind, column.get(trial)) for trial in trials]
        for column in COLUMNS
    }
    columns["matched"] = [trial.run_id in matched for trial in trials]
    for name in config_names(trials):
        columns[free_name(name, "config", columns)] = [trial.params.get(name) for trial in trials]
    for name in metric_names(trials):
        columns[free_name(name, "metric", columns)] = [trial.metrics.get(name) for trial in trials]
    return columns


def _cell(kind: str, value: CsvCell) -> CsvCell:
    if kind != "time" or value is None:
        return value
    return datetime.fromtimestamp(float(value), UTC).isoformat(timespec="milliseconds")


def safe(cell: CsvCell) -> CsvCell:
    """Return a cell that no spreadsheet reads as a formula; None for an infinite number."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, str):
        text = "\n".join(re.split("\r\n?", cell))  # the csv module leaves a lone \r unquoted
        return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell
