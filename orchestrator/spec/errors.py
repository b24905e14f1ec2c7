"""Errors of a spec, as data and as text: place, key, expected, received, next step."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the top of the document: `("search", "space", "units", "low")`."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value, as shown to people, and its line to sort by."""

    text: str
    line: float = math.inf


@dataclass(frozen=True, slots=True)
class Problem:
    """One error of a spec: place, key, expected value, received value, and next step."""

    place: str
    key: str
    expected: str
    received: str
    hint: str = ""

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        hint = f"\n    {self.hint}" if self.hint else ""
        return f"{self.place}: {key}expected {self.expected}; received {self.received}{hint}"


class SpecError(ValueError):
    """All problems of a spec that was refused."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{source}: {count}", *(f"  {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[SpecError], tuple[str, tuple[Problem, ...]]]:
        return type(self), (self.source, self.problems)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem at a path; the document has its place unless it is given."""

    path: Path
    expected: str
    received: str
    hint: str = ""
    place: Place | None = None


def key_text(path: Path) -> str:
    """Return `("arms", "hardware", 1)` as `arms.hardware[1]`."""
    text = ""
    for part in path:
        name = str(part) if str(part).isprintable() else ascii(part)
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{name[:80]}"
    return text


def shown(value: Any) -> str:
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
        inside = ", ".join(shown(item).removesuffix(" (text)") for item in value[:10])
        return f"{cut(f'[{inside}]')} (a list)"
    return cut(str(value))


def nearest(name: object, valid: Iterable[str]) -> str:
    """Return a hint such as `did you mean 'units'?`; empty if no valid name is near."""
    near = difflib.get_close_matches(str(name), list(valid), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def cut(text: str) -> str:
    """Return at most one line of a long text."""
    return text if len(text) <= 72 else f"{text[:69]}…"
