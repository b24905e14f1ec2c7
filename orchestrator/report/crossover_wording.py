"""Sentences on crossovers along a size, the names of sizes, and compiling that pays off."""

from __future__ import annotations

import math

from orchestrator.analysis.comparisons.break_even import BreakEven
from orchestrator.analysis.comparisons.crossover import Crossing, Crossover, Region
from orchestrator.analysis.statistics.formatting import joined, number, ratio
from orchestrator.report.prose import sentence
from orchestrator.report.wording import ArmNames

_ROUNDING = 1e-9
"""Relative tolerance within which a size counts as whole."""


def crossover_sentence(crossover: Crossover, name: ArmNames) -> str:
    """Write `from 96 units on (70–130), A is faster than B`, or another result along the param."""
    arm, base = name(crossover.arm), name(crossover.baseline)
    held = aside(crossover)
    tried = f"{plural(crossover.param)} tried ({number(crossover.low)}–{number(crossover.high)})"
    if crossover.growth is not None:
        grown = f"the speed-up of {arm} over {base} is {_as_large(crossover)}"
        return f"with {other_size(crossover)}, {grown}{held}"
    if crossover.crossing is not None:
        where, beyond = sides(crossover, crossover.crossing)
        return f"{where}, {arm} is faster than {base}, and slower {beyond}{held}"
    if crossover.throughout is not None:
        same = crossover.throughout == "same"
        comparison = "as fast as" if same else f"{crossover.throughout} than"
        return f"{arm} is {comparison} {base} at all {tried}{held}"
    if crossover.verdict == "partly":
        ranges = joined(list(filter(None, (_region(r, crossover) for r in crossover.regions))))
        param = crossover.param.replace("_", " ")
        return f"{arm} compared with {base}, by {param}: {ranges}{held}"
    return f"inconclusive: where {arm} overtakes {base} by {crossover.param} ({crossover.reason})"


def break_even_sentence(point: BreakEven, name: ArmNames) -> str:
    """Write `A compiles 4.1 s longer than B, which pays off after 5,300 steps`."""
    steps = point.steps
    ends = (steps.value, steps.low, steps.high) if steps else ()
    figures = [f"{float(f'{end:.3g}'):,.0f}" for end in ends]
    return sentence("sections/break_even.j2", p=point, name=name, steps=figures)


def _sizes(crossover: Crossover, crossing: Crossing) -> tuple[str, str, str]:
    """Format the crossing and the ends of its interval as possible sizes.

    If only whole sizes were tried, these are the first (or last) whole sizes at which the arm is
    faster: there are no 1.41 layers.
    """
    ends = (crossing.value, crossing.low, crossing.high)
    if any(point.at != int(point.at) for point in crossover.points):
        value, low, high = (_rough(end) for end in ends)
    elif crossover.faster == "above":
        value, low, high = (str(math.ceil(end * (1 - _ROUNDING))) for end in ends)
    else:
        value, low, high = (str(math.floor(end * (1 + _ROUNDING))) for end in ends)
    return value, low, high


def sides(crossover: Crossover, crossing: Crossing) -> tuple[str, str]:
    """Write `from 96 units on (70–130)` and `below 70`; the interval itself is undecided."""
    value, low, high = _sizes(crossover, crossing)
    within = f" ({low}–{high})" if low != high else ""
    at = sized(crossover.param, value)
    if crossover.faster == "above":
        return f"from {at} on{within}", f"below {low}"
    return f"up to {at}{within}", f"above {high}"


def _as_large(crossover: Crossover) -> str:
    value, _, interval = ratio(crossover.growth).partition(" × ")
    return f"{value} × as large {interval}"


def _region(region: Region, crossover: Crossover) -> str:
    """Write the verdict of a range with the sizes tried in it; empty if none was tried."""
    sizes = sorted({p.at for p in crossover.points if region.low <= p.at <= region.high})
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


def plural(param: str) -> str:
    """Write the plural of a param: `units`, `batch sizes`."""
    return param.replace("_", " ") + ("" if param.endswith("s") else "s")


def other_size(crossover: Crossover) -> str:
    """Write the only two sizes: `2 layers instead of 1`."""
    return f"{sized(crossover.param, number(crossover.high))} instead of {number(crossover.low)}"


def aside(crossover: Crossover) -> str:
    """Write the other params: ` (at layers 2)`."""
    held = [
        f"{name} {_rough(value) if isinstance(value, float) else value}"
        for name, value in crossover.held.items()
    ]
    return f" (at {', '.join(held)})" if held else ""
