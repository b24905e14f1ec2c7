"""Prose of reports, from Jinja templates that lie next to their sections.

Each paragraph of a template begins with `- ` on a line of its own. White space does not matter, and
names are shown on one line.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.statistics import formatting
from orchestrator.core.disturbance import disturbance_text
from orchestrator.core.text import counted
from orchestrator.report.document import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_UNWANTED_SPACE = re.compile(r" (?=[,;:)]|\.(?: |$))|(?<=\() ")
"""Around punctuation, where a template has a line break."""

Bullet = tuple[str, str]
"""A kind, which decides the colour, and a sentence."""


def paragraphs(template: str, **values: Any) -> tuple[str, ...]:
    """Return the paragraphs of a template, a path in this package; empty ones are left out."""
    text = _environment().get_template(template).render(values)
    parts = (" ".join(part.split()) for part in re.split(r"(?m)^\s*- ", text))
    return tuple(_UNWANTED_SPACE.sub("", part) for part in parts if part)


def sentence(template: str, **values: Any) -> str:
    """Return the only paragraph of a template; empty if there is none."""
    return " ".join(paragraphs(template, **values))


def bullets(template: str, **values: Any) -> tuple[Bullet, ...]:
    """Return the bullets of a template whose paragraphs begin with their kind and a `|`."""
    split = (paragraph.partition("|") for paragraph in paragraphs(template, **values))
    return tuple((kind.strip(), text.strip()) for kind, _, text in split)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  (50 ms)

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        finalize=lambda value: visible(str(value)),
    )
    for name in (
        *("difference", "difference_interval", "joined", "number"),
        *("quartiles", "ratio", "ratio_interval", "share", "speed"),
    ):
        environment.filters[name] = getattr(formatting, name)
    environment.filters["counted"] = counted
    environment.filters["causes"] = disturbance_text
    return environment
