"""Where one arm overtakes another along a size: a regression of the blocks' speed-ups on it.

The log of a block's speed-up is fitted as a straight line in the log of the param (a parabola
where the line is shown to be wrong), the other params that varied beside it as far as the blocks go
(`design`). Where the 95 % band of the curve lies above 1 the arm is faster, where it lies below,
slower; between the two is the interval of the crossing: the values at which the band holds 1, which
is Fieller's interval ("Some problems in interval estimation", Journal of the Royal Statistical
Society B 16(2), 1954). Of two values there is no curve, and only what lies between them is told.
Nothing is said of values that were not tried. That an arm crosses takes proof at both ends, so that
looking along several params makes false crossings no more likely than 0.05 each at the very most.
In a sweep that may have ended by the width of its intervals all of these have the level that its
speed-ups have, for 95 % of them to be right (see `sequential`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from orchestrator.analysis.comparisons.regression_design import MIN_FREEDOM, Design, designs
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate, exponential
from orchestrator.analysis.statistics.formatting import joined
from orchestrator.analysis.statistics.regression import Fit, Numbers, fit
from orchestrator.core.trial import Arm, Config

CrossoverVerdict = Literal[
    "crosses", "faster throughout", "slower throughout", "same throughout", "partly", "inconclusive"
]
Told = Literal["faster", "slower", "same", "inconclusive"]

_MIN_VALUES = 3
"""Distinct values of a param that a curve needs: two ends would fit any line."""
_GRID = 121
_CURVE = 41
"""Points of the curve that are kept."""
_CURVED = 0.01
"""The p-value below which a straight line is taken to be wrong."""
_THROUGHOUT: Mapping[Told, CrossoverVerdict] = {
    "faster": "faster throughout",
    "slower": "slower throughout",
    "same": "same throughout",
    "inconclusive": "inconclusive",
}


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
class Region:
    """What is known of the arm between two values of the param: `faster`, `slower`, …"""

    low: float
    high: float
    told: Told


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where the curve crosses 1, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Crossover:
    """An arm's speed-up over another along one numeric param, within what was tried (`low`–`high`).

    `slope` is the exponent of a straight line: the speed-up grows as param^slope; None where the
    curve is none. `held` are the other params that varied, and where they are held for the curve;
    `unadjusted` those that it does not allow for, since the blocks are too few. `regions` are what
    it tells, by rising values. Where it crosses, the arm is the faster one `above` or `below` the
    crossing. Where only `low` and `high` were tried there is no curve, but `growth`: how many times
    as large the speed-up is at `high` as at `low`. `reason` is why a verdict is `inconclusive`.
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
    regions: tuple[Region, ...]
    held: Mapping[str, float | str]
    unadjusted: tuple[str, ...] = ()
    growth: Estimate | None = None
    reason: str = ""


def crossovers(
    comparisons: Sequence[Comparison], configs: Mapping[int, Config], margin: float
) -> tuple[Crossover, ...]:
    """Every compared arm against its baseline, along every numeric param that varied.

    Args:
        comparisons: the pairs of times, by block.
        configs: each block's config.
        margin: the share by which a speed-up may differ from 1 and be the same.
    """
    known: dict[tuple[int, ...], tuple[Design, ...]] = {}
    found = []
    for each in comparisons:
        blocks = tuple(pair.block for pair in each.pairs)
        if each.baseline is None or not blocks:
            continue
        if blocks not in known:  # most arms have the same blocks
            known[blocks] = designs([configs[block] for block in blocks])
        found += [_crossover(each, design, margin) for design in known[blocks]]
    return tuple(found)


def _crossover(comparison: Comparison, design: Design, margin: float) -> Crossover:
    base, metric = comparison.baseline, comparison.metric
    assert base is not None
    assert metric is not None  # or there would be no pair
    pairs = comparison.pairs
    at, beside = design.at, design.beside
    logs = np.array([np.log(pair.baseline / pair.arm) for pair in pairs])
    found = Crossover(
        arm=comparison.arm, baseline=base, param=design.param, metric=metric,
        low=float(at.min()), high=float(at.max()), verdict="inconclusive", faster=None,
        crossing=None, slope=None, points=(), curve=(), regions=(), held={},
    )  # fmt: skip
    points = _points(comparison, at, logs)
    if len(pairs) < MIN_BLOCKS:
        return replace(found, points=points, reason=f"at least {MIN_BLOCKS} blocks are needed")
    if comparison.corrected is None:  # they are enough, and too many of them were disturbed
        return replace(found, points=points, reason=comparison.reason)
    distinct = len(np.unique(at))
    model = _model(at, logs, beside, distinct, comparison.plain_confidence)
    if design.tied or model is None:
        tied = joined(design.tied) or "other params"
        return replace(found, points=points, reason=f"it varied only together with {tied}")
    effect = beside @ model.found.coefficients[model.degree + 1 :]
    found = replace(
        found,
        held=design.held,
        unadjusted=design.unadjusted,
        slope=model.found.coefficient(1) if model.degree == 1 else None,
        points=_points(comparison, at, logs - effect),
    )
    return _grown(found) if distinct < _MIN_VALUES else _told(found, model, margin)


def _grown(found: Crossover) -> Crossover:
    """Of two values no line can be wrong, and so none be trusted: only its ends count."""
    assert found.slope is not None  # a parabola takes more of them
    apart = float(np.log(found.high / found.low))
    slope = found.slope
    logs = Estimate(slope.n, *(apart * each for each in (slope.value, slope.low, slope.high)))
    reason = f"only 2 values of it were tried, at least {_MIN_VALUES} are needed"
    return replace(found, growth=exponential(logs), reason=reason)


def _points(comparison: Comparison, at: Numbers, adjusted: Numbers) -> tuple[SizePoint, ...]:
    return tuple(
        SizePoint(pair.block, float(x), pair.baseline / pair.arm, float(np.exp(y)))
        for pair, x, y in zip(comparison.pairs, at, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Model:
    """A line or a parabola in the log of the param; `centre` keeps its terms apart."""

    found: Fit
    degree: int
    centre: float
    others: int

    def at(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """The log of the speed-up and its half-width, all other params held."""
        return self.found.at(_rows(values, self.centre, self.degree, self.others))


def _rows(at: Numbers, centre: float, degree: int, others: int | Numbers) -> Numbers:
    terms = np.vander(np.log(at) - centre, degree + 1, increasing=True)
    beside = others if isinstance(others, np.ndarray) else np.zeros((len(at), others))
    return np.column_stack([terms, beside])


def _model(
    at: Numbers, logs: Numbers, beside: Numbers, distinct: int, confidence: float
) -> _Model | None:
    """A line, or a parabola where its curvature is beyond doubt and there are points enough."""
    centre, others = float(np.log(at).mean()), beside.shape[1]
    line = fit(_rows(at, centre, 1, beside), logs, confidence)
    if line is None:
        return None
    if distinct > _MIN_VALUES + 1 and line.freedom > 2 * MIN_FREEDOM:
        parabola = fit(_rows(at, centre, 2, beside), logs, confidence)
        if parabola is not None and parabola.p_value(2) < _CURVED:
            return _Model(parabola, 2, centre, others)
    return _Model(line, 1, centre, others)


def _told(found: Crossover, model: _Model, margin: float) -> Crossover:
    grid = np.geomspace(found.low, found.high, _GRID)
    middle, half = model.at(grid)
    regions = _regions(grid, middle, half, margin)
    verdict, faster = _verdict(regions)
    crossing = _crossing(regions, grid, middle) if verdict == "crosses" else None
    few = slice(None, None, (_GRID - 1) // (_CURVE - 1))
    curve = zip(grid[few], middle[few], half[few], strict=True)
    return replace(
        found,
        verdict=verdict,
        faster=faster,
        crossing=crossing,
        curve=tuple(
            CurvePoint(float(x), *(float(np.exp(log)) for log in (y, y - w, y + w)))
            for x, y, w in curve
        ),
        regions=regions,
        reason="the band of the curve holds 1 at all sizes tried"
        if verdict == "inconclusive"
        else "",
    )


def _regions(grid: Numbers, middle: Numbers, half: Numbers, margin: float) -> tuple[Region, ...]:
    """Stretches of the grid of which the same is known; where two meet, between two points."""
    within = np.log1p(margin)
    told: list[Told] = [
        "same" if -within < low and high < within
        else "faster" if low > 0
        else "slower" if high < 0
        else "inconclusive"
        for low, high in zip(middle - half, middle + half, strict=True)
    ]  # fmt: skip
    edges = [0, *(i for i in range(1, len(told)) if told[i] != told[i - 1]), len(told)]
    between = [grid[0], *(np.sqrt(grid[i - 1] * grid[i]) for i in edges[1:-1]), grid[-1]]
    return tuple(
        Region(float(between[i]), float(between[i + 1]), told[edges[i]])
        for i in range(len(edges) - 1)
    )


def _verdict(
    regions: Sequence[Region],
) -> tuple[CrossoverVerdict, Literal["above", "below"] | None]:
    told = [region.told for region in regions]
    if len(told) == 1:
        return _THROUGHOUT[told[0]], None
    sides = [each for each in told if each in ("faster", "slower")]
    if sides == ["slower", "faster"] and told[0] == "slower" and told[-1] == "faster":
        return "crosses", "above"
    if sides == ["faster", "slower"] and told[0] == "faster" and told[-1] == "slower":
        return "crosses", "below"
    return "partly", None


def _crossing(regions: Sequence[Region], grid: Numbers, middle: Numbers) -> Crossing:
    """The middle's root, and as its interval what lies between the last point of either side."""
    change = int(np.nonzero(np.diff(np.sign(middle)))[0][0])
    (x0, x1), (y0, y1) = np.log(grid[change : change + 2]), middle[change : change + 2]
    value = float(np.exp(x0 - y0 * (x1 - x0) / (y1 - y0)))
    sides = [region for region in regions if region.told in ("faster", "slower")]
    low, high = grid[grid < sides[0].high][-1], grid[grid > sides[1].low][0]
    return Crossing(value, float(low), float(high))
