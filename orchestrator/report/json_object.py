"""A summary as one versioned JSON object with stable keys, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from orchestrator.report.summary import ReportSummary

FORMAT = "rnnsweep-report"
VERSION = 2


def to_json(summary: ReportSummary) -> str:
    """The whole summary with its raw trials; numbers are finite or null. Plain ASCII."""
    content = {"format": FORMAT, "version": VERSION, **_plain(summary)}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Dataclasses as objects of their fields, mappings sorted, what is not finite as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(value[key]) for key in sorted(value, key=str)}
