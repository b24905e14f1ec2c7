"""Where an arm overtakes another along a size, in words; and the names of sizes."""

from __future__ import annotations

import math

from orchestrator.analysis.comparisons.crossover import Crossing, Crossover, Region
from orchestrator.analysis.statistics.formatting import joined, number, ratio
from orchestrator.report.wording.sentences import ArmNames

_ROUNDING = 1e-9
"""A share: a size this close to a whole one is that one."""


def crossover_sentence(crossover: Crossover, name: ArmNames) -> str:
    """`from 96 units on (70–130), A is faster than B`, or what else is known along the param."""
    arm, base = name(crossover.arm), name(crossover.baseline)
    held = aside(crossover)
    tried = f"{plural(crossover.param)} tried ({number(crossover.low)}–{number(crossover.high)})"
    if crossover.growth is not None:
        grown = f"the speed-up of {arm} over {base} is {_as_large(crossover)}"
        return f"with {other_size(crossover)}, {grown}{held}"
    if crossover.crossing is not None:
        where, beyond = sides(crossover, crossover.crossing)
        return f"{where}, {arm} is faster than {base}, and slower {beyond}{held}"
    if crossover.verdict in ("faster throughout", "slower throughout"):
        which = crossover.verdict.partition(" ")[0]
        return f"{arm} is {which} than {base} at all {tried}{held}"
    if crossover.verdict == "same throughout":
        return f"{arm} is as fast as {base} at all {tried}{held}"
    if crossover.verdict == "partly":
        told = joined(list(filter(None, (_region(r, crossover) for r in crossover.regions))))
        return f"{arm} beside {base}, by {crossover.param.replace('_', ' ')}: {told}{held}"
    return f"cannot tell where {arm} overtakes {base} by {crossover.param}: {crossover.reason}"


def _sizes(crossover: Crossover, crossing: Crossing) -> tuple[str, str, str]:
    """The crossing and the ends of its interval, as sizes that there are.

    Where only whole sizes were tried it is the first (or last) of them at which the arm is faster,
    and so are the ends: no layer is 1.41 layers.
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
    """`from 96 units on (70–130)` and `below 70`: what lies within the interval is not known."""
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
    """What is known of a stretch, by the sizes in it that were tried; nothing where none was."""
    sizes = sorted({p.at for p in crossover.points if region.low <= p.at <= region.high})
    if not sizes:
        return ""
    ends = number(sizes[0]) if len(sizes) == 1 else f"{number(sizes[0])}–{number(sizes[-1])}"
    return f"{'as fast' if region.told == 'same' else region.told} at {ends}"


def _rough(value: float) -> str:
    """A size as a reader says it: three figures, whole where it is large."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def sized(param: str, size: str) -> str:
    """`96 units`, `1 layer`, `batch size 64`: a param that is a count, or one that has a value."""
    words = param.replace("_", " ")
    if not param.endswith("s"):
        return f"{words} {size}"
    return f"{size} {words.removesuffix('s') if size == '1' else words}"


def plural(param: str) -> str:
    """`units`, `batch sizes`."""
    return param.replace("_", " ") + ("" if param.endswith("s") else "s")


def other_size(crossover: Crossover) -> str:
    """`2 layers instead of 1`, of the only two."""
    return f"{sized(crossover.param, number(crossover.high))} instead of {number(crossover.low)}"


def not_allowed_for(crossover: Crossover) -> str:
    """`layers and batch_size not allowed for: too few blocks`; empty where there is none."""
    if not crossover.unadjusted:
        return ""
    return f"{joined(crossover.unadjusted)} not allowed for: too few blocks"


def aside(crossover: Crossover) -> str:
    """` (at layers 2; batch_size not allowed for: too few blocks)`: what became of the others."""
    held = [
        f"{name} {_rough(value) if isinstance(value, float) else value}"
        for name, value in crossover.held.items()
    ]
    at = f"at {', '.join(held)}" if held else ""
    told = "; ".join(filter(None, (at, not_allowed_for(crossover))))
    return f" ({told})" if told else ""
