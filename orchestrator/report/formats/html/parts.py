"""What stands on the page, in which order: the document's sections with the plots of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.report.charts import Plot
from orchestrator.report.charts.naming import slug
from orchestrator.report.charts.speedups import SIGNS
from orchestrator.report.document import Document, Section, Table

_MARKS = {
    **SIGNS,
    "equal": "=",
    "better": "▲",
    "worse": "▼",
    "best": "★",
    "pays": "▲",
    "never": "▼",
}

_OWN_TITLES = {
    "speed": "Speed-up",
    "matrix": "Hardware × implementation",
    "fronts": "Accuracy against time, energy and cost",
    "crossovers": "Crossover",
    "learning": "Learning",
    "phases": "Phases",
    "telemetry": "Telemetry",
}
"""Of parts whose section the document lacks."""

_BEGINNINGS = {
    "speed": "Speed-up over",
    "matrix": "Hardware × implementation",
    "fronts": "Pareto fronts",
    "crossovers": "Crossovers",
    "learning": "Learning",
    "phases": "Time by phase",
    "telemetry": "In one trial of each arm",
}
"""How the title of a part's section begins."""


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the page; a bullet is its kind, its mark and its sentence."""

    id: str
    title: str
    bullets: tuple[tuple[str, str, str], ...]
    tables: tuple[Table, ...]
    paragraphs: tuple[str, ...]
    plots: tuple[Plot, ...]


def parts_of(document: Document, plots: Sequence[Plot]) -> list[Part]:
    """The sections in the document's order; plots of none of them before those on validity.

    The matrix of a single hardware class has no section, and stands with the speed-ups.
    """
    left = {part: [p for p in plots if p.part == part] for part in _OWN_TITLES}
    if not any(section.title.startswith(_BEGINNINGS["matrix"]) for section in document.sections):
        left["speed"] += left.pop("matrix")
    parts = []
    for section in document.sections:
        part = next((p for p in left if section.title.startswith(_BEGINNINGS[p])), None)
        parts.append(_part(section, left.pop(part) if part else []))
    own = [_part(Section(_OWN_TITLES[part]), found) for part, found in left.items() if found]
    end = next(
        (i for i, s in enumerate(document.sections) if s.title in ("Excluded", "Validity")),
        len(parts),
    )
    return _numbered([*parts[:end], *own, *parts[end:]])


def _part(section: Section, plots: Sequence[Plot]) -> Part:
    return Part(
        id=slug(section.title) or "part",
        title=section.title,
        bullets=tuple((slug(kind), _MARKS.get(kind, "•"), said) for kind, said in section.bullets),
        tables=section.tables,
        paragraphs=section.paragraphs,
        plots=tuple(plots),
    )


def _numbered(parts: list[Part]) -> list[Part]:
    """With ids that are unique, whatever the titles."""
    return [replace(part, id=f"part-{i}-{part.id}") for i, part in enumerate(parts, 1)]
