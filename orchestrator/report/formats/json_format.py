"""A summary as one versioned JSON object with stable keys, for programs.

`report.schema.json` beside this file is its JSON Schema. Within a version, properties are added at
most; a version that takes one away, or changes what one means, has another number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from orchestrator.analysis.summary import ReportSummary

FORMAT = "rnnsweep-report"
VERSION = 4


def to_json(summary: ReportSummary) -> str:
    """The whole summary with its raw trials; numbers are finite or null. Plain ASCII.

    One line for each entry of the longer lists: to be compared, and written fast.
    """
    content = {"format": FORMAT, "version": VERSION, **_plain(summary)}
    lines = ",\n".join(f"  {_dump(key)}: {_entries(value)}" for key, value in content.items())
    return f"{{\n{lines}\n}}\n"


def _entries(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return _dump(value)
    entries = ",\n".join(f"    {_dump(each)}" for each in value)
    return f"[\n{entries}\n  ]"


def _dump(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _plain(value: Any) -> Any:
    """Dataclasses as objects of their fields, mappings sorted, what is not finite as null."""
    if isinstance(value, str | int | None):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(value[key]) for key in sorted(value, key=str)}
