"""The JSON Schema of the report's JSON format, made from the plain data that it is written from.

Run as a program it prints the schema, which stands in `report.schema.json` beside this file; a test
holds the two together.
"""

from __future__ import annotations

import json
import sys
from dataclasses import make_dataclass
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.formats.json_format import FORMAT, VERSION, TrialEntry

_ABOUT = (
    "Everything that a report says, with the raw trials behind every number. A number is made from "
    "the runs that stand beside it (`run_ids`; in a pair `arm_runs` and `baseline_runs`), or from "
    "the pairs that do. Any other is made from rows of `trials` with its arm, and with its block "
    "where it has one: in comparisons, rankings, targets, sizes and break-evens from the complete "
    "trials of `complete_rounds`, less the rounds that count as disturbed or torn there (targets "
    "have trainings that diverged, too); from all complete trials in `arms` and `learning` for an "
    "arm that lacks some of these rounds, and in `targets` for one that has none; so always in "
    "`phases`, in the arms of `validity`, and in `arms` for what a fresh trainer alone can tell; "
    "in `left_out` from those that did not complete. A number that was not finite is null. Within "
    "a version, properties are added at most; a version that takes one away, or changes what "
    "one means, has another number."
)

_DROPPED = ("default", "title", "propertyNames")
"""The last because an arm as a key is its name."""


def schema() -> dict[str, Any]:
    """The schema; every property is always there, and there are no others."""
    types = {**get_type_hints(ReportSummary), "trials": tuple[TrialEntry, ...]}
    content = make_dataclass(
        "ReportSummary", types.items(), namespace={"__doc__": ReportSummary.__doc__}
    )
    made = TypeAdapter(content).json_schema(mode="serialization")
    definitions = {name: _strict(found) for name, found in sorted(made.pop("$defs").items())}
    top = _strict(made)
    head = {"format": {"const": FORMAT}, "version": {"const": VERSION}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rnnsweep:report:{VERSION}",
        "title": "rnnsweep report --format json",
        "description": _ABOUT,
        "type": "object",
        "additionalProperties": False,
        "required": [*head, *top["required"]],
        "properties": {**head, **top["properties"]},
        "$defs": definitions,
    }


def _strict(part: Any) -> Any:
    """Objects of fixed properties have them all; a number may be null, and tuples are arrays."""
    if isinstance(part, list):
        return [_strict(each) for each in part]
    if not isinstance(part, dict):
        return part
    found = {key: _strict(value) for key, value in part.items() if key not in _DROPPED}
    if part.get("type") == "number":
        found["type"] = ["number", "null"]
    if isinstance(part.get("properties"), dict):
        found["properties"] = {name: _strict(each) for name, each in part["properties"].items()}
        found["required"] = list(part["properties"])
        found["additionalProperties"] = False
    if "description" in found:
        found["description"] = " ".join(str(found["description"]).split())
    return found


def text() -> str:
    """The file's text."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
