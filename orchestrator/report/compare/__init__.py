"""Comparison of two sweeps, or of two generations of one: changes beyond noise."""

from orchestrator.report.compare.changes import ArmChange, Changes, FailOn, compare, failing
from orchestrator.report.compare.document import as_json, to_document
from orchestrator.report.compare.sides import InvalidSide, Side, read_report

__all__ = [
    "ArmChange",
    "Changes",
    "FailOn",
    "InvalidSide",
    "Side",
    "as_json",
    "compare",
    "failing",
    "read_report",
    "to_document",
]
