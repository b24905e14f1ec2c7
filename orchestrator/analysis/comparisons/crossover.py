"""Crossovers: the size at which one arm overtakes another, from a regression of the speed-ups.

The log of a block's speed-up is fitted as a straight line in the log of the param (as a parabola if
the line is shown to be wrong), adjusted for the other params that varied, as far as the number of
blocks allows (`regression_design`). Where the band of the curve is above 1 the arm is faster, where
it is below 1, slower. Between the two is the interval of the crossing: the values at which the band
contains 1, which is Fieller's interval ("Some problems in interval estimation", Journal of the
Royal Statistical Society B 16(2), 1954). With two values there is no curve, only a growth between
them. Nothing is extrapolated beyond the values tried.

All curves of a report are one family: their bands have the level 1 - error / number of curves
(Bonferroni). A curve gets a verdict of a difference only if its simultaneous band (Scheffé)
excludes 1 somewhere. So if no arm differs, a wrong region occurs in at most 5 % of sweeps, however
many arms and params there are. In a sweep that may have ended by the width of its intervals the
error is that of its speed-ups (see `stopping_looks`).
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
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config

CrossoverVerdict = Literal[
    "crosses", "faster throughout", "slower throughout", "same throughout", "partly", "inconclusive"
]
RegionVerdict = Literal["faster", "slower", "same", "inconclusive"]

_MIN_VALUES = 3
"""Distinct values of a param that a curve needs: any line fits two values."""
_GRID = 121
_CURVE = 41
"""Points of the curve in the result."""
_CURVED = 0.01
"""The p-value of the curvature below which a straight line is rejected."""
_THROUGHOUT: Mapping[RegionVerdict, CrossoverVerdict] = {
    "faster": "faster throughout",
    "slower": "slower throughout",
    "same": "same throughout",
    "inconclusive": "inconclusive",
}


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One block: its value of the param and its speed-up, raw and adjusted for the other params."""

    block: int
    at: float
    speedup: float
    adjusted: float


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The fitted speed-up at one value of the param, with its interval."""

    at: float
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Region:
    """A range of the param with one verdict."""

    low: float
    high: float
    verdict: RegionVerdict


@dataclass(frozen=True, slots=True)
class Crossing:
    """The value at which the curve crosses 1, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Crossover:
    """An arm's speed-up over another along one numeric param, within what was tried (`low`–`high`).

    `slope` is the exponent of a straight line: the speed-up grows as param^slope; None for a
    parabola. `held` gives the other params that varied and the values at which the curve holds
    them; `unadjusted` those that it does not adjust for, because there are too few blocks.
    `regions` are ordered by rising values. If the arms cross, the arm is the faster one `above` or
    `below` the crossing. If only `low` and `high` were tried there is no curve but a `growth`: the
    speed-up at `high` over that at `low`. Intervals have the level `confidence`, which is corrected
    for all curves of the report. `reason` explains an `inconclusive` verdict.
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
    confidence: float | None = None
    reason: str | None = None

    @property
    def throughout(self) -> RegionVerdict | None:
        """The verdict that holds at all sizes tried; None if there is no such verdict."""
        if len(self.regions) != 1 or self.verdict == "inconclusive":
            return None
        return self.regions[0].verdict


def crossovers(
    comparisons: Sequence[Comparison], configs: Mapping[int, Config], margin: float
) -> tuple[Crossover, ...]:
    """Return the crossovers of every compared arm with its baseline, along every varied param.

    Args:
        comparisons: the pairs of times, by block.
        configs: each block's config.
        margin: the share by which a speed-up may differ from 1 and be the same.
    """
    designs_by_blocks: dict[tuple[int, ...], tuple[Design, ...]] = {}
    curves: list[tuple[Comparison, Design]] = []
    for comparison in comparisons:
        blocks = tuple(pair.block for pair in comparison.pairs)
        if comparison.baseline is None or not blocks:
            continue
        if blocks not in designs_by_blocks:  # most arms have the same blocks
            designs_by_blocks[blocks] = designs([configs[block] for block in blocks])
        curves += [(comparison, design) for design in designs_by_blocks[blocks]]
    family = sum(_is_testable(comparison, design) for comparison, design in curves)
    return tuple(
        _crossover(comparison, design, margin, max(1, family)) for comparison, design in curves
    )


def _is_testable(comparison: Comparison, design: Design) -> bool:
    """Check that the blocks are enough for a verdict along this param."""
    enough = len(comparison.pairs) >= MIN_BLOCKS and comparison.corrected is not None
    return enough and not design.tied


def _crossover(comparison: Comparison, design: Design, margin: float, family: int) -> Crossover:
    base, metric = comparison.baseline, comparison.metric
    assert base is not None
    assert metric is not None  # or there would be no pair
    pairs = comparison.pairs
    at, covariates = design.at, design.covariates
    logs = np.array([np.log(pair.baseline / pair.arm) for pair in pairs])
    crossover = Crossover(
        arm=comparison.arm, baseline=base, param=design.param, metric=metric,
        low=float(at.min()), high=float(at.max()), verdict="inconclusive", faster=None,
        crossing=None, slope=None, points=(), curve=(), regions=(), held={},
    )  # fmt: skip
    points = _points(comparison, at, logs)
    if len(pairs) < MIN_BLOCKS:
        return replace(crossover, points=points, reason=f"at least {MIN_BLOCKS} blocks are needed")
    if comparison.corrected is None:  # enough blocks, but too many were disturbed
        return replace(crossover, points=points, reason=comparison.reason)
    distinct = len(np.unique(at))
    confidence = 1 - (1 - comparison.plain_confidence) / family
    model = _model(at, logs, covariates, distinct, confidence)
    if design.tied or model is None:
        tied = joined(design.tied) or "other params"
        return replace(crossover, points=points, reason=f"it varied only together with {tied}")
    effect = covariates @ model.fit.coefficients[model.degree + 1 :]
    crossover = replace(
        crossover,
        confidence=confidence,
        held=design.held,
        unadjusted=design.unadjusted,
        slope=model.fit.coefficient(1) if model.degree == 1 else None,
        points=_points(comparison, at, logs - effect),
    )
    return (
        _with_growth(crossover) if distinct < _MIN_VALUES else _with_curve(crossover, model, margin)
    )


def _with_growth(crossover: Crossover) -> Crossover:
    """Return the crossover of two values only: a line through them cannot be checked."""
    slope = crossover.slope
    assert slope is not None  # a parabola needs more values
    distance = float(np.log(crossover.high / crossover.low))
    logs = Estimate(slope.n, *(distance * end for end in (slope.value, slope.low, slope.high)))
    reason = f"only 2 values of it were tried, at least {_MIN_VALUES} are needed"
    return replace(crossover, growth=exponential(logs), reason=reason)


def _points(comparison: Comparison, at: Numbers, adjusted: Numbers) -> tuple[SizePoint, ...]:
    return tuple(
        SizePoint(pair.block, float(x), pair.baseline / pair.arm, float(np.exp(y)))
        for pair, x, y in zip(comparison.pairs, at, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Model:
    """A line or a parabola in the log of the param; `centre` keeps its terms apart."""

    fit: Fit
    degree: int
    centre: float
    others: int

    def at(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """Return the log of the speed-up and its half-width, all other params held."""
        return self.fit.at(_rows(values, self.centre, self.degree, self.others))


def _rows(at: Numbers, centre: float, degree: int, others: int | Numbers) -> Numbers:
    terms = np.vander(np.log(at) - centre, degree + 1, increasing=True)
    covariates = others if isinstance(others, np.ndarray) else np.zeros((len(at), others))
    return np.column_stack([terms, covariates])


def _model(
    at: Numbers, logs: Numbers, covariates: Numbers, distinct: int, confidence: float
) -> _Model | None:
    """Fit a line, or a parabola if its curvature is significant and there are enough points."""
    centre, others = float(np.log(at).mean()), covariates.shape[1]
    line = fit(_rows(at, centre, 1, covariates), logs, confidence)
    if line is None:
        return None
    if distinct > _MIN_VALUES + 1 and line.freedom > 2 * MIN_FREEDOM:
        parabola = fit(_rows(at, centre, 2, covariates), logs, confidence)
        if parabola is not None and parabola.p_value(2) < _CURVED:
            return _Model(parabola, 2, centre, others)
    return _Model(line, 1, centre, others)


def _with_curve(crossover: Crossover, model: _Model, margin: float) -> Crossover:
    grid = np.geomspace(crossover.low, crossover.high, _GRID)
    middle, half = model.at(grid)
    differs = bool(np.any(np.abs(middle) > model.fit.simultaneous_factor(model.degree + 1) * half))
    regions = _regions(grid, middle, half, margin, differs=differs)
    verdict, faster = _verdict(regions)
    crossing = _crossing(regions, grid, middle) if verdict == "crosses" else None
    few = slice(None, None, (_GRID - 1) // (_CURVE - 1))
    curve = zip(grid[few], middle[few], half[few], strict=True)
    return replace(
        crossover,
        verdict=verdict,
        faster=faster,
        crossing=crossing,
        curve=tuple(
            CurvePoint(float(x), *(float(np.exp(log)) for log in (y, y - w, y + w)))
            for x, y, w in curve
        ),
        regions=regions,
        reason="the band of the curve includes 1 at all sizes tried"
        if verdict == "inconclusive"
        else None,
    )


def _regions(
    grid: Numbers, middle: Numbers, half: Numbers, margin: float, *, differs: bool
) -> tuple[Region, ...]:
    """Return the ranges of the grid with one verdict each; they meet between two points."""
    within = np.log1p(margin)
    verdicts: list[RegionVerdict] = [
        "same" if -within < low and high < within
        else "faster" if low > 0 and differs
        else "slower" if high < 0 and differs
        else "inconclusive"
        for low, high in zip(middle - half, middle + half, strict=True)
    ]  # fmt: skip
    edges = [0, *(i for i in range(1, len(verdicts)) if verdicts[i] != verdicts[i - 1])]
    edges.append(len(verdicts))
    between = [grid[0], *(np.sqrt(grid[i - 1] * grid[i]) for i in edges[1:-1]), grid[-1]]
    return tuple(
        Region(float(between[i]), float(between[i + 1]), verdicts[edges[i]])
        for i in range(len(edges) - 1)
    )


def _verdict(
    regions: Sequence[Region],
) -> tuple[CrossoverVerdict, Literal["above", "below"] | None]:
    verdicts = [region.verdict for region in regions]
    if len(verdicts) == 1:
        return _THROUGHOUT[verdicts[0]], None
    sides = [verdict for verdict in verdicts if verdict in ("faster", "slower")]
    if sides == ["slower", "faster"] and verdicts[0] == "slower" and verdicts[-1] == "faster":
        return "crosses", "above"
    if sides == ["faster", "slower"] and verdicts[0] == "faster" and verdicts[-1] == "slower":
        return "crosses", "below"
    return "partly", None


def _crossing(regions: Sequence[Region], grid: Numbers, middle: Numbers) -> Crossing:
    """Return the root of the curve, and the range between the nearest decided points."""
    change = int(np.nonzero(np.diff(np.sign(middle)))[0][0])
    (x0, x1), (y0, y1) = np.log(grid[change : change + 2]), middle[change : change + 2]
    value = float(np.exp(x0 - y0 * (x1 - x0) / (y1 - y0)))
    sides = [region for region in regions if region.verdict in ("faster", "slower")]
    low, high = grid[grid < sides[0].high][-1], grid[grid > sides[1].low][0]
    return Crossing(value, float(low), float(high))
