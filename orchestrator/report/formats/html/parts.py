"""The parts of the page in their order: the sections of the document with their plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.report.charts.chart import Chart, slug
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
"""The titles of parts without a section in the document."""

_BEGINNINGS = {
    "speed": "Speed-up over",
    "matrix": "Hardware × implementation",
    "fronts": "Pareto fronts",
    "crossovers": "Crossovers",
    "learning": "Learning",
    "phases": "Time by phase",
    "telemetry": "Telemetry",
}
"""The beginning of the title of a part's section."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of the page; a bullet is a kind, a sign and a sentence."""

    id: str
    title: str
    bullets: tuple[tuple[str, str, str], ...]
    tables: tuple[Table, ...]
    paragraphs: tuple[str, ...]
    plots: tuple[Chart, ...]


def parts_of(document: Document, plots: Sequence[Chart]) -> list[PagePart]:
    """Return the sections in the document's order; plots without one precede those on validity.

    The matrix of a single hardware class has no section: it joins the speed-ups.
    """
    remaining = {part: [p for p in plots if p.part == part] for part in _OWN_TITLES}
    if not any(section.title.startswith(_BEGINNINGS["matrix"]) for section in document.sections):
        remaining["speed"] += remaining.pop("matrix")
    parts = []
    for section in document.sections:
        part = next((p for p in remaining if section.title.startswith(_BEGINNINGS[p])), None)
        parts.append(_part(section, remaining.pop(part) if part else []))
    own = [
        _part(Section(_OWN_TITLES[part]), plots_of_part)
        for part, plots_of_part in remaining.items()
        if plots_of_part
    ]
    end = next(
        (i for i, s in enumerate(document.sections) if s.title in ("Excluded", "Validity")),
        len(parts),
    )
    return _numbered([*parts[:end], *own, *parts[end:]])


def _part(section: Section, plots: Sequence[Chart]) -> PagePart:
    return PagePart(
        id=slug(section.title) or "part",
        title=section.title,
        bullets=tuple(
            (slug(kind), _MARKS.get(kind, "•"), sentence) for kind, sentence in section.bullets
        ),
        tables=section.tables,
        paragraphs=section.paragraphs,
        plots=tuple(plots),
    )


def _numbered(parts: list[PagePart]) -> list[PagePart]:
    """Make the ids unique, even for equal titles."""
    return [replace(part, id=f"part-{i}-{part.id}") for i, part in enumerate(parts, 1)]
