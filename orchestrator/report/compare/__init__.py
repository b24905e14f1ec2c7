"""Comparison of two sweeps, or of two generations of one: changes beyond noise."""

from orchestrator.report.compare.accuracies import AccuracyChange
from orchestrator.report.compare.changes import (
    ArmChange,
    Changes,
    FailOn,
    compare,
    failing,
)
from orchestrator.report.compare.costs import NeedChange
from orchestrator.report.compare.differences import Difference
from orchestrator.report.compare.document import to_document
from orchestrator.report.compare.json_format import as_json
from orchestrator.report.compare.matching import ConfigPair
from orchestrator.report.compare.sides import InvalidSide, Side, of_record, read_report

__all__ = [
    "AccuracyChange",
    "ArmChange",
    "Changes",
    "ConfigPair",
    "Difference",
    "FailOn",
    "InvalidSide",
    "NeedChange",
    "Side",
    "as_json",
    "compare",
    "failing",
    "of_record",
    "read_report",
    "to_document",
]
