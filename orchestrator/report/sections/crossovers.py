"""The sections on crossovers along a size, and on when compiling pays off."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.comparisons.crossover import Crossover
from orchestrator.analysis.statistics.formatting import joined, number, ratio_interval
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.crossover_wording import (
    aside,
    break_even_sentence,
    crossover_sentence,
    other_size,
    plural,
)
from orchestrator.report.document import Section
from orchestrator.report.prose import paragraphs
from orchestrator.report.wording import ArmNames

_SENTENCES = 24
"""The JSON format has the rest."""


def crossovers(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a sentence for each arm and param along which something changes; crossings first."""
    curves = summary.crossovers
    if not curves:
        return None
    changes = [c for kind in ("crosses", "partly") for c in curves if c.verdict == kind]
    changes += [crossover for crossover in curves if _grows(crossover)]
    notes = paragraphs(
        "sections/crossovers.j2",
        throughout=_throughout(curves, name),
        unchanged=_unchanged(curves, name),
        inconclusive=_inconclusive(curves, name),
        changes=len(changes),
        most=_SENTENCES,
    )
    bullets = tuple(("crosses", crossover_sentence(c, name)) for c in changes[:_SENTENCES])
    return Section("Crossovers", bullets, paragraphs=notes)


def _throughout(curves: Sequence[Crossover], name: ArmNames) -> dict[tuple[str, str], list[str]]:
    """Return the arms by their verdict at all sizes, and by the sizes."""
    arms: dict[tuple[str, str], list[str]] = {}
    for curve in curves:
        if curve.throughout is not None:
            sizes = f"{plural(curve.param)} ({number(curve.low)}–{number(curve.high)})"
            arms.setdefault((curve.throughout, sizes), []).append(name(curve.arm))
    return arms


def _grows(crossover: Crossover) -> bool:
    """Check that the speed-up differs between the only two values."""
    growth = crossover.growth
    return growth is not None and not growth.low <= 1 <= growth.high


def _unchanged(curves: Sequence[Crossover], name: ArmNames) -> dict[str, list[str]]:
    """Return the arms, with intervals, whose speed-up does not change, by the only two values."""
    arms: dict[str, list[str]] = {}
    for curve in curves:
        if curve.growth is not None and not _grows(curve):
            text = f"{name(curve.arm)} ({ratio_interval(curve.growth)} ×)"
            arms.setdefault(other_size(curve) + aside(curve), []).append(text)
    return arms


def _inconclusive(curves: Sequence[Crossover], name: ArmNames) -> str:
    """Make `by layers and units (only 5 blocks …): tensorflow/cudnn, …`, for each reason."""
    arms: dict[tuple[str, str], list[str]] = {}
    for curve in curves:
        if curve.verdict == "inconclusive" and curve.growth is None:
            arms.setdefault((curve.reason or "", curve.param), []).append(name(curve.arm))
    params: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, param), own in arms.items():
        params.setdefault((reason, tuple(own)), []).append(param)
    return "; ".join(
        f"by {joined(by)} ({reason}): {', '.join(own)}" for (reason, own), by in params.items()
    )


def compiling(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Report after how many steps a longer compilation pays off."""
    points = summary.break_evens
    if not points:
        return None
    bullets = tuple((point.verdict, break_even_sentence(point, name)) for point in points)
    notes = paragraphs("sections/compiling.j2", trainers=points[0].trainers, points=len(points))
    return Section("Break-even of compiling", bullets, paragraphs=notes)
