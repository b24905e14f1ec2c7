"""Queries of the trials of a sweep: selection of rows and columns, and output formats."""

from orchestrator.report.query.asking import ask, select, to_frame, usual_columns
from orchestrator.report.query.expression import QueryError
from orchestrator.report.query.formats import SheetFormat, as_bytes, to_listing
from orchestrator.report.query.table import Sheet, SheetColumn, make_sheet

__all__ = [
    "QueryError",
    "Sheet",
    "SheetColumn",
    "SheetFormat",
    "as_bytes",
    "ask",
    "make_sheet",
    "select",
    "to_frame",
    "to_listing",
    "usual_columns",
]
