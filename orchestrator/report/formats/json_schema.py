"""The JSON Schema of the report's JSON format, made from the classes that the format is made from.

Run as a program, this module prints `report.schema.json`; `report.schema.txt` describes it.
"""

import json
import sys
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.formats.json_format import FORMAT, VERSION, TrialEntry

_DROPPED = ("default", "title", "propertyNames")
"""Keys of pydantic's schema that are dropped; `propertyNames` because arms as keys are names."""


def schema() -> dict[str, Any]:
    """Return the schema: every property is required, and no others are allowed."""
    types = {**get_type_hints(ReportSummary), "trials": tuple[TrialEntry, ...]}
    content = make_dataclass(
        "ReportSummary", types.items(), namespace={"__doc__": ReportSummary.__doc__}
    )
    made = TypeAdapter(content).json_schema(mode="serialization")
    about = Path(__file__).with_name("report.schema.txt").read_text(encoding="utf-8")
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
