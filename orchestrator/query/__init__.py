"""A sweep's trials as tidy rows: which ones, which columns, in which format."""

from orchestrator.query.asking import ask, query, select, to_frame, usual_columns
from orchestrator.query.expression import QueryError
from orchestrator.query.sheet import Sheet, SheetColumn, make_sheet
from orchestrator.query.writing import SheetFormat, as_bytes, to_listing

__all__ = [
    "QueryError",
    "Sheet",
    "SheetColumn",
    "SheetFormat",
    "as_bytes",
    "ask",
    "make_sheet",
    "query",
    "select",
    "to_frame",
    "to_listing",
    "usual_columns",
]
