"""Two sweeps side by side, or one at two times: what changed beyond noise."""

from orchestrator.comparing.accuracies import AccuracyChange
from orchestrator.comparing.changes import (
    ArmChange,
    Changes,
    FailOn,
    compare,
    failing,
)
from orchestrator.comparing.differences import Difference
from orchestrator.comparing.json_object import as_json
from orchestrator.comparing.matching import ConfigPair
from orchestrator.comparing.needs import NeedChange
from orchestrator.comparing.sides import NoSide, Side, of_record, read_report
from orchestrator.comparing.wording import to_document

__all__ = [
    "AccuracyChange",
    "ArmChange",
    "Changes",
    "ConfigPair",
    "Difference",
    "FailOn",
    "NeedChange",
    "NoSide",
    "Side",
    "as_json",
    "compare",
    "failing",
    "of_record",
    "read_report",
    "to_document",
]
