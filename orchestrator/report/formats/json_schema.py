"""The JSON Schema of the report's JSON format, made from the classes that the format is made from.

Run as a program, this module prints `report.schema.json`; `report.schema.txt` describes it.
"""

import json
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import FailureReason
from orchestrator.report.formats.json_format import ENTRY, FORMAT, PARTS, VERSION

_DROPPED = ("default", "title", "propertyNames")
"""Keys of pydantic's schema that are dropped; `propertyNames` because arms as keys are names."""


def schema() -> dict[str, Any]:
    """Return the schema: every property is required, and no others are allowed."""
    file = Path(__file__).with_name("report.schema.txt")
    about, of_trials = file.read_text(encoding="utf-8").split("\n\n")
    entry = make_dataclass("TrialEntry", _entry_types().items(), namespace={"__doc__": of_trials})
    types = {**get_type_hints(ReportSummary), "trials": GenericAlias(tuple, (entry, ...))}
    content = make_dataclass(
        "ReportSummary", types.items(), namespace={"__doc__": ReportSummary.__doc__}
    )
    made = TypeAdapter(content).json_schema(mode="serialization")
    definitions = {
        name: _strict(definition) for name, definition in sorted(made.pop("$defs").items())
    }
    top = _strict(made)
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rnnsweep:report:{VERSION}",
        "title": "rnnsweep report --format json",
        "description": " ".join(about.split()),
        "type": "object",
        "additionalProperties": False,
        "required": [*head, *top["required"]],
        "properties": {**head, **top["properties"]},
        "$defs": definitions,
    }


def _entry_types() -> dict[str, Any]:
    """Return the type of each field of a trial's entry."""
    hints = {name: hint for kind in PARTS.values() for name, hint in get_type_hints(kind).items()}
    hints |= {"run_id": str, "trial_key": str}
    hints |= {"failure_reason": FailureReason | None, "failure_message": str | None}
    return {name: hints[name] for name in ENTRY}


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


def text() -> str:
    """Return the text of the file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
