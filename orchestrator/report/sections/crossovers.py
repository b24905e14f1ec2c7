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
from orchestrator.report.wording import ArmNames, grouped

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
        throughout=grouped(
            ((c.throughout, f"{plural(c.param)} ({number(c.low)}–{number(c.high)})"), name(c.arm))
            for c in curves
            if c.throughout is not None
        ),
        unchanged=grouped(
            (other_size(c) + aside(c), f"{name(c.arm)} ({ratio_interval(c.growth)} ×)")
            for c in curves
            if c.growth is not None and not _grows(c)
        ),
        inconclusive=_inconclusive(curves, name),
        changes=len(changes),
        most=_SENTENCES,
    )
    bullets = tuple(("crosses", crossover_sentence(c, name)) for c in changes[:_SENTENCES])
    return Section("Crossovers", bullets, paragraphs=notes)


def _grows(crossover: Crossover) -> bool:
    """Check that the speed-up differs between the only two values."""
    growth = crossover.growth
    return growth is not None and not growth.low <= 1 <= growth.high


def _inconclusive(curves: Sequence[Crossover], name: ArmNames) -> str:
    """Make `by layers and units (only 5 blocks …): tensorflow/cudnn, …`, for each reason."""
    arms = grouped(
        ((curve.reason or "", curve.param), name(curve.arm))
        for curve in curves
        if curve.verdict == "inconclusive" and curve.growth is None
    )
    params = grouped(((reason, tuple(own)), param) for (reason, param), own in arms.items())
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
