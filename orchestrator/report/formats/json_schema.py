"""The JSON Schema of the report's JSON format, made from the classes that the format is made from.

`make docs` writes it into `report.schema.json`.
"""

import json
from dataclasses import make_dataclass
from pathlib import Path
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.formats import WrittenBy
from orchestrator.core.trial import FailureReason
from orchestrator.report.formats.json_format import (
    REPORT,
    TRIAL_ENTRY,
    TRIAL_PARTS,
)

REPORT_SCHEMA_FILE = Path(__file__).with_name("report.schema.json")

_REPORT_TEXT = (
    "The answers of a sweep, and the raw trials behind every number. `contrasts` has each "
    "comparison (of two arms, two values of a factor or two sizes, by one metric) once. Contrasts "
    "of arms and factors, and the means in `arms`, are computed from `values`, which has the "
    "blocks that count for each metric. Other numbers are computed from the runs listed with them "
    "(`run_ids`), or from the rows of `trials` with the same arm (and block): of "
    "`complete_blocks`, or all complete trials of an arm that lacks some of these blocks. "
    "`phases`, the noise in `arms` and measures that need a fresh trainer always use all complete "
    "trials; `targets` also use diverged ones. A number that is not finite is null. Within a "
    "version, properties may be added. Removing a property, or changing its meaning, changes the "
    "version."
)
"""What a report in JSON is, and from which trials its numbers are calculated."""

_TRIAL_ENTRY_TEXT = (
    "One trial of the report; `run_id` is its run in MLflow. Times are seconds since the epoch "
    "(UTC). `disturbance` has a figure for each cause. The environment, the telemetry curves and "
    "the trainer's output are artifacts of the run."
)

_DROPPED = ("default", "title", "propertyNames")
"""Keys of pydantic's schema that are dropped; `propertyNames` because arms as keys are names."""


def report_schema() -> dict[str, Any]:
    """Return the schema: every property is required, and no others are allowed."""
    entry = make_dataclass(
        "TrialEntry", _entry_types().items(), namespace={"__doc__": _TRIAL_ENTRY_TEXT}
    )
    types = {**get_type_hints(ReportSummary), "trials": GenericAlias(tuple, (entry, ...))}
    content = make_dataclass(
        "ReportSummary", types.items(), namespace={"__doc__": ReportSummary.__doc__}
    )
    made = TypeAdapter(content).json_schema(mode="serialization")
    definitions = {
        name: _strict(definition) for name, definition in sorted(made.pop("$defs").items())
    }
    top = _strict(made)
    writer = _strict(TypeAdapter(WrittenBy).json_schema(mode="serialization"))
    head = {
        "format": {"const": REPORT.id},
        "version": {"const": REPORT.number},
        "written_by": writer,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rnnsweep:report:{REPORT.number}",
        "title": "rnnsweep report --format json",
        "description": _REPORT_TEXT,
        "type": "object",
        "additionalProperties": False,
        "required": [*head, *top["required"]],
        "properties": {**head, **top["properties"]},
        "$defs": definitions,
    }


def _entry_types() -> dict[str, Any]:
    """Return the type of each field of a trial's entry."""
    hints = {
        name: hint for kind in TRIAL_PARTS.values() for name, hint in get_type_hints(kind).items()
    }
    hints |= {"run_id": str, "trial_key": str}
    hints |= {"failure_reason": FailureReason | None, "failure_message": str | None}
    return {name: hints[name] for name in TRIAL_ENTRY}


def _strict(part: Any) -> Any:
    """Require all properties of objects, allow null for numbers, and write tuples as arrays."""
    if isinstance(part, list):
        return [_strict(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    strict = {key: _strict(value) for key, value in part.items() if key not in _DROPPED}
    if part.get("type") == "number":
        strict["type"] = ["number", "null"]
    if isinstance(part.get("properties"), dict):
        strict["properties"] = {name: _strict(entry) for name, entry in part["properties"].items()}
        strict["required"] = list(part["properties"])
        strict["additionalProperties"] = False
    if "description" in strict:
        strict["description"] = " ".join(str(strict["description"]).split())
    return strict


def report_schema_text() -> str:
    """Return the text of the file."""
    return json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n"
