"""Errors of a spec: location, key, what is wrong, next step; pydantic's errors become such."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from orchestrator.core.errors import Refusal

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the top of the document: `("search", "space", "units", "low")`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error of a spec: location, key, expected value, received value, and next step.

    If no other value of this key would do, `expected` is empty and `received` says what is wrong.
    """

    location: str
    key: str
    expected: str
    received: str
    hint: str = ""

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        wrong = f"expected {self.expected}; received " if self.expected else ""
        return f"{self.location}: {key}{wrong}{self.received}{hint}"


class SpecError(Refusal, ValueError):
    """All problems of a spec that was refused."""

    __module__ = "rnnsweep"

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{source}: {count}", *(f"  {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[SpecError], tuple[str, tuple[Problem, ...]]]:
        return type(self), (self.source, self.problems)


@dataclass(frozen=True, slots=True)
class ProblemAtPath:
    """A `Problem` at a path; the document has its location."""

    path: Path
    expected: str
    received: str
    hint: str = ""


def stated(path: Path, text: str, hint: str = "") -> ProblemAtPath:
    """Return a problem that `text` states, because no other value of the key would do."""
    return ProblemAtPath(path, "", text, hint)


def key_text(path: Path) -> str:
    """Return `("arms", "hardware", 1)` as `arms.hardware[1]`."""
    text = ""
    for part in path:
        name = str(part) if str(part).isprintable() else ascii(part)
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{name[:80]}"
    return text


def shown_value(value: Any) -> str:
    """Return a received value for a message: short, with its kind if quotes would mislead."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"{cut(ascii(value) if not value.isprintable() else repr(value))} (text)"
    if isinstance(value, Mapping):
        return f"{cut('{' + ', '.join(map(str, value)) + '}')} (a mapping)"
    if isinstance(value, list | tuple):
        inside = ", ".join(shown_value(item).removesuffix(" (text)") for item in value[:10])
        return f"{cut(f'[{inside}]')} (a list)"
    return cut(str(value))


def nearest(name: object, valid: Iterable[str]) -> str:
    """Return a hint such as `did you mean 'units'?`; empty if no valid name is near."""
    near = nearest_name(name, valid)
    return f"did you mean {near!r}?" if near else ""


def nearest_name(name: object, valid: Iterable[str]) -> str | None:
    """Return the valid name that is nearest, if one is near."""
    return next(iter(difflib.get_close_matches(str(name), list(valid), n=1)), None)


def cut(text: str) -> str:
    """Return at most one line of a long text."""
    return text if len(text) <= 72 else f"{text[:69]}…"


_OF_MEDIAN = "name optuna.pruners:MedianPruner, which takes it"
_IS_FIXED = "remove it: the limits of clocks are fixed"

FORMER_KEYS: Mapping[str, str] = {
    "blocks": "write search.configs: auto (or {interval: …, at_least: …, at_most: …})",
    "disturbed.accept_provisional": "remove it: intervals on a busy machine count",
    "disturbed.action": "remove it: a disturbed trial is marked",
    "disturbed.canary": "remove it: the load of other processes is measured directly",
    "disturbed.clock_drop_pct": _IS_FIXED,
    "disturbed.throttled_pct": _IS_FIXED,
    "search.pruner.interval_steps": _OF_MEDIAN,
    "search.pruner.n_min_trials": _OF_MEDIAN,
}
"""Keys of 0.1.0, each with a hint at what to write instead."""

FORMER_WORDS: Mapping[tuple[str, Any], str] = {
    ("disturbed", "mark"): "remove it: a disturbed trial is marked",
}
"""Words of 0.1.0 that stood for a section, by key, each with a hint at what to write instead."""

_A_MAPPING = "a mapping (key: value)"
_A_DIMENSION = "a list of choices, or {{low: …, high: …}}"

_EXPECTED: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "string_pattern_mismatch": "text of the shape {pattern}",
    "tuple_type": "a list",
    "list_type": "a list",
    "too_short": "at least {min_length} of them",
    "mapping_type": _A_MAPPING,
    "dict_type": _A_MAPPING,
    "model_type": _A_MAPPING,
    "union_tag_not_found": _A_DIMENSION,
    "union_tag_invalid": _A_DIMENSION,
    "literal_error": "{expected}",
    "enum": "{expected}",
    "refusal": "{expected}",  # empty for an error of `fields.statement`
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
"""The expected value by the type of pydantic's error; {names} are values of its context."""


def from_pydantic(
    error: ValidationError, models: Mapping[Path, type[BaseModel]] = MappingProxyType({})
) -> list[ProblemAtPath]:
    """Return every error of a validation as a finding.

    `models` by path are for suggestions: `*` matches any key, and the path of a dimension ends with
    its kind. A key of another section is suggested with its path.
    """
    sections = {
        name: key_text(_path((*path, name)))
        for path, model in models.items()
        if path and "*" not in path
        for name in _keys(model)
    }
    findings, details, meant = list[ProblemAtPath](), list[ErrorDetails](), set[Path]()
    for detail in error.errors(include_url=False):
        if detail["type"] != "extra_forbidden":
            details.append(detail)
            continue
        *parents, key = detail["loc"]
        valid = [
            name
            for pattern, model in models.items()
            if len(pattern) == len(parents)
            and all(a in ("*", b) for a, b in zip(pattern, parents, strict=True))
            for name in _keys(model)
        ]
        path = _path(detail["loc"])
        near = FORMER_KEYS.get(key_text(path)) or nearest(key, valid)
        if key in sections or not near:
            (match,) = difflib.get_close_matches(str(key), sections, n=1) or [""]
            near = f"did you mean {sections[match]!r}?" if match else ""
        meant.update((*parents, name) for name in valid if repr(name) in near)
        received = f"the unknown key {key!r}" if valid else f"unknown key {key!r}"
        expected = f"one of {', '.join(valid)}" if valid else ""
        findings.append(ProblemAtPath(path, expected, received, near))
    # A misspelt key is one problem, not one more for the key that it meant.
    missing = [
        detail for detail in details if detail["type"] == "missing" and detail["loc"] in meant
    ]
    return findings + [_to_problem(detail) for detail in details if detail not in missing]


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _to_problem(error: ErrorDetails) -> ProblemAtPath:
    """Return an error of pydantic in our words: what was expected and received, and a hint."""
    context: dict[str, Any] = error.get("ctx", {})
    path = (*_path(error["loc"]), *filter(None, [context.get("key")]))
    if error["type"] == "missing":
        needed = context.get("expected")
        return stated(path, f"missing: {needed}" if needed else "missing, without a default")
    template = _EXPECTED.get(error["type"])
    # a message of pydantic, or of a workload's own validator
    text_of_message = re.sub(
        "^(Input should be |Value error, |Assertion failed, )", "", error["msg"]
    )
    expected = template.format(**context) if template else text_of_message.removeprefix("expected ")
    received = context.get("received") or shown_value(error["input"])
    return ProblemAtPath(path, expected, received, context.get("hint") or _hint(error, expected))


_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,2})?")


def _hint(error: ErrorDetails, expected: str) -> str:
    value = error["input"]
    if error["type"] == "model_type" and isinstance(value, str):
        return FORMER_WORDS.get((key_text(_path(error["loc"])), value), "")
    if error["type"] == "string_type" and isinstance(value, bool):
        return "YAML reads yes, no, on and off as true and false: put text in quotes"
    if error["type"] == "string_type" and isinstance(value, int | float | dict):
        return "put text in quotes"
    if "number" in expected and isinstance(value, str) and _NUMBER.fullmatch(value):
        return f"write {float(value):.15g}, without quotes"
    if error["type"] in ("literal_error", "enum"):
        return nearest(value, re.findall(r"'([^']*)'", expected))
    return ""


def _path(location: Path) -> Path:
    """Return pydantic's location without `[key]` and the kinds of what has more than one."""
    parts = [part for part in location if part != "[key]"]
    if parts[:2] == ["search", "space"] and len(parts) > 3:
        del parts[3]
    if parts[:2] in (["search", "configs"], ["search", "sampler"], ["search", "pruner"]):
        del parts[2:3]
    return tuple(parts)
