"""The sections on crossovers along a size, and on when compiling pays off, and their sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.analysis.comparisons.break_even import BreakEven
from orchestrator.analysis.comparisons.crossover import Crossover, Region
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import joined, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import Section
from orchestrator.report.prose import paragraphs, sentence
from orchestrator.report.wording import ArmNames, grouped

_SENTENCES = 24
"""The JSON format has the rest."""
_ROUNDING = 1e-9
"""Relative tolerance within which a size counts as whole."""


def crossovers(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a sentence for each arm and param along which something changes; crossings first."""
    curves = summary.crossovers
    if not curves:
        return None
    changes = [c for kind in ("crosses", "partly") for c in curves if c.verdict == kind]
    notes = paragraphs(
        "sections/crossovers.j2",
        throughout=grouped(
            ((c.verdict, f"{_plural(c.effect.param)} ({_span(c)})"), name(c.effect.arm))
            for c in curves
            if c.verdict in ("faster", "slower", "same")
        ),
        inconclusive=_inconclusive(curves, name),
        changes=len(changes),
        most=_SENTENCES,
    )
    bullets = tuple(("crosses", crossover_sentence(c, name)) for c in changes[:_SENTENCES])
    return Section("Crossovers", bullets, paragraphs=notes)


def _inconclusive(curves: Sequence[Crossover], name: ArmNames) -> str:
    """Make `by layers and units (only 5 blocks …): tensorflow/cudnn, …`, for each reason."""
    arms = grouped(
        ((curve.reason or "", curve.effect.param), name(curve.effect.arm))
        for curve in curves
        if curve.verdict == "inconclusive"
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


def crossover_sentence(crossover: Crossover, name: ArmNames) -> str:
    """Write `from 96 units on (70–130), A is faster than B`, or another result along the param."""
    where, beyond = _sides(crossover, crossover.crossing) if crossover.crossing else ("", "")
    return sentence(
        "sections/crossover.j2",
        c=crossover,
        name=name,
        where=where,
        beyond=beyond,
        plural=_plural(crossover.effect.param),
        span=_span(crossover) if crossover.regions else "",
        regions=list(filter(None, (_region(region, crossover) for region in crossover.regions))),
        held=_aside(crossover),
    )


def break_even_sentence(point: BreakEven, name: ArmNames) -> str:
    """Write `A compiles 4.1 s longer than B, which pays off after 5,300 steps`."""
    steps = point.steps
    ends = (steps.value, steps.low, steps.high) if steps else ()
    figures = [f"{float(f'{end:.3g}'):,.0f}" for end in ends]
    return sentence("sections/break_even.j2", p=point, name=name, steps=figures)


def _sides(crossover: Crossover, crossing: Estimate) -> tuple[str, str]:
    """Write `from 96 units on (70–130)` and `below 70`; the interval itself is undecided."""
    # If only whole sizes were tried, these are the first (or last) whole sizes at which the arm is
    # faster: there are no 1.41 layers.
    ends = (crossing.value, crossing.low, crossing.high)
    is_above = crossover.faster == "above"
    if any(float(point.at) % 1 for point in crossover.effect.points):
        value, low, high = map(_rough, ends)
    elif is_above:
        value, low, high = (str(math.ceil(end * (1 - _ROUNDING))) for end in ends)
    else:
        value, low, high = (str(math.floor(end * (1 + _ROUNDING))) for end in ends)
    within = f" ({low}–{high})" if low != high else ""
    at = sized(crossover.effect.param, value)
    if is_above:
        return f"from {at} on{within}", f"below {low}"
    return f"up to {at}{within}", f"above {high}"


def _region(region: Region, crossover: Crossover) -> str:
    """Write the verdict of a range with the sizes tried in it; empty if none was tried."""
    at = {float(point.at) for point in crossover.effect.points}
    sizes = sorted(size for size in at if region.low <= size <= region.high)
    if not sizes:
        return ""
    ends = number(sizes[0]) if len(sizes) == 1 else f"{number(sizes[0])}–{number(sizes[-1])}"
    return f"{'as fast' if region.verdict == 'same' else region.verdict} at {ends}"


def _rough(value: float) -> str:
    """Format a size with three figures, or as a whole number if it is large."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def sized(param: str, size: str) -> str:
    """Write a size: `96 units`, `1 layer`, `batch size 64`."""
    words = param.replace("_", " ")
    if not param.endswith("s"):
        return f"{words} {size}"
    return f"{size} {words.removesuffix('s') if size == '1' else words}"


def _plural(param: str) -> str:
    """Write the plural of a param: `units`, `batch sizes`."""
    return param.replace("_", " ") + ("" if param.endswith("s") else "s")


def _span(crossover: Crossover) -> str:
    """Write the sizes tried: `16–192`."""
    return f"{number(crossover.regions[0].low)}–{number(crossover.regions[-1].high)}"


def _aside(crossover: Crossover) -> str:
    """Write the other params: ` (at layers 2)`."""
    held = [
        f"{name} {_rough(value) if isinstance(value, float) else value}"
        for name, value in crossover.effect.held.items()
    ]
    return f" (at {', '.join(held)})" if held else ""
