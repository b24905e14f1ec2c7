"""Conversion of pydantic's errors to findings: expected, received, next step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from orchestrator.spec.errors import Finding, Path, nearest, shown

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "mapping_type": "a mapping (key: value)",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "union_tag_not_found": "a list of choices, or {{low: …, high: …}}",
    "union_tag_invalid": "a list of choices, or {{low: …, high: …}}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} of them",
    "string_pattern_mismatch": "text of the shape {pattern}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "refusal": "{expected}",
}


def from_pydantic(error: ValidationError, keys: Mapping[Path, Sequence[str]]) -> list[Finding]:
    """Return every error of a validation as a finding.

    Args:
        error: the error that pydantic raised.
        keys: path -> the valid keys there, for suggestions; `*` matches any key, and the path of
            a dimension ends with its kind.
    """
    findings, meant = list[Finding](), set[Path]()
    details = error.errors(include_url=False)
    for one in details:
        if one["type"] == "extra_forbidden":
            valid = _valid_keys(one["loc"][:-1], keys)
            near = nearest(one["loc"][-1], valid)
            meant.update((*one["loc"][:-1], name) for name in valid if repr(name) in near)
            expected = f"one of {', '.join(valid)}" if valid else "no such key"
            received = f"the unknown key {one['loc'][-1]!r}"
            findings.append(Finding(_path(one["loc"]), expected, received, near))
    for one in details:
        if one["type"] == "extra_forbidden" or (one["type"] == "missing" and one["loc"] in meant):
            continue  # a misspelt key is one problem, not one more for the key that it meant
        findings.append(_finding(one))
    return findings


def _finding(error: ErrorDetails) -> Finding:
    context: dict[str, Any] = error.get("ctx", {})
    path = (*_path(error["loc"]), *filter(None, [context.get("key")]))
    if error["type"] == "missing":
        return Finding(path, "a value (there is no default)", "nothing")
    template = _EXPECTED.get(error["type"])
    expected = template.format(**context) if template else _expectation(error["msg"])
    received = context.get("received") or shown(error["input"])
    return Finding(path, expected, received, context.get("hint") or _hint(error, expected))


def _hint(error: ErrorDetails, expected: str) -> str:
    value = error["input"]
    if error["type"] == "string_type" and isinstance(value, bool):
        return "YAML reads yes, no, on and off as true and false: put text in quotes"
    if error["type"] == "string_type" and isinstance(value, int | float):
        return "put text in quotes"
    if isinstance(value, str) and "number" in expected and (number := _as_number(value)):
        return f"write {number}, without quotes"
    if error["type"] in ("literal_error", "enum"):
        return nearest(value, re.findall(r"'([^']*)'", expected))
    return ""


def _as_number(text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else str(value)


def _expectation(message: str) -> str:
    """Return the expectation in a message of pydantic, or of a workload's own validator."""
    for start in ("Input should be ", "Value error, ", "Assertion failed, "):
        message = message.removeprefix(start)
    return message.removeprefix("expected ")


def _valid_keys(place: Path, keys: Mapping[Path, Sequence[str]]) -> Sequence[str]:
    for pattern, names in keys.items():
        if len(pattern) == len(place) and all(
            part in ("*", name) for part, name in zip(pattern, place, strict=True)
        ):
            return names
    return ()


def _path(location: Path) -> Path:
    """Return pydantic's location without `[key]` and the kinds of dimensions and configs."""
    parts = [part for part in location if part != "[key]"]
    if parts[:2] == ["search", "space"] and len(parts) > 3:
        del parts[3]
    if parts[:2] == ["search", "configs"]:
        del parts[2:3]
    return tuple(parts)
