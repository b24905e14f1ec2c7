"""Where one arm overtakes another along a size: a regression of the blocks' speed-ups on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.report.statistics import Estimate
from orchestrator.trial import Arm

CrossoverVerdict = Literal["crosses", "faster throughout", "slower throughout", "cannot tell"]


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One block: its value of the param and its speed-up, raw and with the other params held."""

    block: int
    at: float
    speedup: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The fitted speed-up at one value of the param, with its 95 % interval."""

    at: float
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where the curve crosses 1, with its 95 % interval; an end is None where it is not in reach.

    The interval ends within the values that were tried, or is open.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Crossover:
    """An arm's speed-up over another along one numeric param, within what was tried (`low`–`high`).

    `slope` is the exponent: the speed-up grows as param^slope. `adjusted_for` are the other params
    that varied, held at their middle for the curve. Where it crosses, the arm is the faster one
    `above` or `below`. `sentence` says it; `reason` is why it cannot be told.
    """

    arm: Arm
    baseline: Arm
    param: str
    metric: str
    low: float
    high: float
    verdict: CrossoverVerdict
    faster: Literal["above", "below"] | None
    crossing: Crossing | None
    slope: Estimate | None
    points: tuple[SizePoint, ...]
    curve: tuple[CurvePoint, ...]
    adjusted_for: tuple[str, ...]
    reason: str = ""
