"""Crossovers: the size at which one arm overtakes another, from a regression of the speed-ups.

The log of a block's speed-up is fitted as a straight line in the log of the param, adjusted for all
other params that varied. Where the band of the line is above 1 the arm is faster, where it is below
1, slower. Between the two is the interval of the crossing, which is Fieller's ("Some problems in
interval estimation", Journal of the Royal Statistical Society B 16(2), 1954). Nothing is
extrapolated beyond the values tried.

All lines of a report are one family (Bonferroni), with the error of its speed-ups. A line gets a
verdict of a difference only if its simultaneous band (Scheffé) excludes 1 somewhere. So if no arm
differs, a wrong region occurs in at most 5 % of sweeps, however many arms and params there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median_low
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, stdtrit

from orchestrator.analysis.comparisons.by_size import is_finite
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate, exponential
from orchestrator.analysis.statistics.formatting import joined
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.core.trial import Config, ConfigValue

Numbers = NDArray[np.float64]
_Coded = tuple[list[Numbers], float | str]
"""A param as columns that are 0 at the value at which it is held, and that value."""

CrossoverVerdict = Literal[
    "crosses", "faster throughout", "slower throughout", "same throughout", "partly", "inconclusive"
]
RegionVerdict = Literal["faster", "slower", "same", "inconclusive"]

_MIN_VALUES = 3
"""Distinct values of a param that a curve needs: any line fits two values."""
_MIN_FREEDOM = 3
"""Residual degrees of freedom that a line needs."""
_ABSENT = "absent"
"""The value at which a param is held that most configs do not have."""
_GRID = 121
_CURVE = 41
"""Points of the curve in the result."""
_THROUGHOUT: Mapping[RegionVerdict, CrossoverVerdict] = {
    "faster": "faster throughout",
    "slower": "slower throughout",
    "same": "same throughout",
    "inconclusive": "inconclusive",
}
_FASTER: Mapping[tuple[RegionVerdict, ...], Literal["above", "below"]] = {
    ("slower", "faster"): "above",
    ("faster", "slower"): "below",
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

    `slope` is the exponent of the line: the speed-up grows as param^slope. `held` gives the other
    params that varied and the values at which the curve holds them. `regions` are ordered by rising
    values. If the arms cross, the arm is the faster one `above` or `below` the crossing. If only
    `low` and `high` were tried there is no curve but a `growth`: the speed-up at `high` over that
    at `low`. Intervals have the level `confidence`, which is corrected for all curves of the
    report. `reason` explains an `inconclusive` verdict.
    """

    arm: Arm
    baseline: Arm
    param: str
    metric: str
    low: float
    high: float
    verdict: CrossoverVerdict = "inconclusive"
    faster: Literal["above", "below"] | None = None
    crossing: Crossing | None = None
    slope: Estimate | None = None
    points: tuple[SizePoint, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    regions: tuple[Region, ...] = ()
    held: Mapping[str, float | str] = field(default_factory=dict)
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

    The configs are those of the blocks. A speed-up that differs from 1 by less than the margin (a
    share) is the same.
    """
    designs: dict[tuple[int, ...], list[_Design]] = {}
    curves: list[tuple[Comparison, _Design]] = []
    for comparison in comparisons:
        blocks = tuple(pair.block for pair in comparison.pairs)
        if comparison.baseline is None or not blocks:
            continue
        if blocks not in designs:  # most arms have the same blocks
            designs[blocks] = _designs([configs[block] for block in blocks])
        curves += [(comparison, design) for design in designs[blocks]]
    family = sum(_refusal(comparison, design) is None for comparison, design in curves)
    return tuple(_crossover(comparison, design, margin, family) for comparison, design in curves)


def _refusal(comparison: Comparison, design: _Design) -> str | None:
    """Return why there is no line along this param; None if there is one."""
    if len(comparison.pairs) < MIN_BLOCKS:
        return f"at least {MIN_BLOCKS} blocks are needed"
    if comparison.corrected is None:  # enough blocks, but too many were disturbed
        return comparison.reason
    return design.reason


def _crossover(comparison: Comparison, design: _Design, margin: float, family: int) -> Crossover:
    base, metric = comparison.baseline, comparison.metric
    assert base is not None
    assert metric is not None  # or there would be no pair
    at, logs = design.at, np.log([pair.baseline / pair.arm for pair in comparison.pairs])
    crossover = Crossover(
        comparison.arm, base, design.param, metric, float(at.min()), float(at.max())
    )
    if reason := _refusal(comparison, design):
        return replace(crossover, points=_points(comparison, at, logs), reason=reason)
    line = _fit(design, logs, 1 - (1 - comparison.plain_confidence) / family)
    crossover = replace(
        crossover,
        confidence=line.confidence,
        held=design.held,
        slope=line.slope,
        points=_points(comparison, at, logs - design.covariates @ line.coefficients[2:]),
    )
    if len(np.unique(at)) >= _MIN_VALUES:
        return _with_curve(crossover, line, margin)
    distance, slope = math.log(crossover.high / crossover.low), line.slope
    growth = Estimate(slope.n, *(distance * end for end in (slope.value, slope.low, slope.high)))
    reason = f"only 2 values of it were tried, at least {_MIN_VALUES} are needed"
    return replace(crossover, growth=exponential(growth), reason=reason)


def _points(comparison: Comparison, at: Numbers, adjusted: Numbers) -> tuple[SizePoint, ...]:
    return tuple(
        SizePoint(pair.block, float(x), pair.baseline / pair.arm, float(np.exp(y)))
        for pair, x, y in zip(comparison.pairs, at, adjusted, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """A line in the log of the param, from least squares: level at `centre`, slope, covariates."""

    centre: float
    coefficients: Numbers
    covariance: Numbers
    freedom: int
    confidence: float

    def at(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """Return the log of the speed-up and its half-width, all other params held."""
        rows = np.column_stack([np.ones_like(values), np.log(values) - self.centre])
        variances = np.einsum("ij,jk,ik->i", rows, self.covariance[:2, :2], rows)
        return rows @ self.coefficients[:2], self._quantile * np.sqrt(np.maximum(0, variances))

    @property
    def slope(self) -> Estimate:
        """The slope with its interval; `n` is the number of blocks."""
        value = float(self.coefficients[1])
        half = self._quantile * math.sqrt(self.covariance[1, 1])
        return Estimate(self.freedom + len(self.coefficients), value, value - half, value + half)

    @property
    def simultaneous_factor(self) -> float:
        """The factor that widens the half-widths of `at` to a band for all values together.

        Source: Scheffé, "A method for judging all contrasts in the analysis of variance",
        Biometrika 40(1/2), 1953.
        """
        return math.sqrt(2 * fdtri(2, self.freedom, self.confidence)) / self._quantile

    @property
    def _quantile(self) -> float:
        return float(stdtrit(self.freedom, (1 + self.confidence) / 2))


def _fit(design: _Design, logs: Numbers, confidence: float) -> _Line:
    centre = float(np.log(design.at).mean())
    rows = np.column_stack([np.ones_like(logs), np.log(design.at) - centre, design.covariates])
    coefficients: Numbers = np.linalg.lstsq(rows, logs, rcond=None)[0].astype(np.float64)
    residuals, freedom = logs - rows @ coefficients, len(rows) - rows.shape[1]
    scale = float(residuals @ residuals) / freedom
    covariance = np.asarray(np.linalg.inv(rows.T @ rows) * scale, dtype=np.float64)
    return _Line(centre, coefficients, covariance, freedom, confidence)


def _with_curve(crossover: Crossover, line: _Line, margin: float) -> Crossover:
    grid = np.geomspace(crossover.low, crossover.high, _GRID)
    middle, half = line.at(grid)
    differs = bool(np.any(np.abs(middle) > line.simultaneous_factor * half))
    regions = _regions(grid, middle, half, margin, differs=differs)
    verdicts = [region.verdict for region in regions]
    sides = tuple(verdict for verdict in verdicts if verdict in ("faster", "slower"))
    crosses = sides in _FASTER and (verdicts[0], verdicts[-1]) == sides
    verdict = _THROUGHOUT[verdicts[0]] if len(verdicts) == 1 else "partly"
    curve = np.exp([middle, middle - half, middle + half]).T
    places = range(0, _GRID, (_GRID - 1) // (_CURVE - 1))
    return replace(
        crossover,
        verdict="crosses" if crosses else verdict,
        faster=_FASTER[sides] if crosses else None,
        crossing=_crossing(regions, grid, middle) if crosses else None,
        curve=tuple(CurvePoint(float(grid[i]), *curve[i].tolist()) for i in places),
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
    ends = [grid[0], *np.sqrt(grid[:-1] * grid[1:]), grid[-1]]
    runs = [list(run) for _, run in groupby(range(_GRID), key=verdicts.__getitem__)]
    return tuple(
        Region(float(ends[run[0]]), float(ends[run[-1] + 1]), verdicts[run[0]]) for run in runs
    )


def _crossing(regions: Sequence[Region], grid: Numbers, middle: Numbers) -> Crossing:
    """Return the root of the curve, and the range between the nearest decided points."""
    change = int(np.nonzero(np.diff(np.sign(middle)))[0][0])
    (x0, x1), (y0, y1) = np.log(grid[change : change + 2]), middle[change : change + 2]
    value = float(np.exp(x0 - y0 * (x1 - x0) / (y1 - y0)))
    sides = [region for region in regions if region.verdict in ("faster", "slower")]
    low, high = grid[grid < sides[0].high][-1], grid[grid > sides[1].low][0]
    return Crossing(value, float(low), float(high))


@dataclass(frozen=True, slots=True)
class _Design:
    """The blocks' values of one param, and the covariates for the others that varied.

    `covariates` (a row for each block) is 0 where the others are at `held`; `reason` explains why
    the effects cannot be separated.
    """

    param: str
    at: Numbers
    covariates: Numbers
    held: Mapping[str, float | str]
    reason: str | None


def _designs(configs: Sequence[Config]) -> list[_Design]:
    """Return a design for each param that varied and is a positive number in every config."""
    names = sorted(set().union(*configs))
    varied = [name for name in names if len({str(config.get(name)) for config in configs}) > 1]
    coded = {name: _coded([config.get(name) for config in configs]) for name in varied}
    designs = []
    for name in varied:
        at = [config.get(name) for config in configs]
        if all(is_finite(value) and float(value) > 0 for value in at):
            others = {other: own for other, own in coded.items() if other != name}
            designs.append(_design(name, np.array(at, dtype=float), others))
    return designs


def _design(param: str, at: Numbers, others: Mapping[str, _Coded]) -> _Design:
    x, blocks = np.log(at), len(at)
    together = [name for name, (columns, _) in others.items() if _determine(columns, x)]
    columns = [column for own, _ in others.values() for column in own]
    if not together and _determine(columns, x):
        together = list(others)
    covariates = np.empty((blocks, 0))
    for column in columns:  # those that a constant and earlier ones determine add nothing
        if not _determine(covariates.T, column):
            covariates = np.column_stack([covariates, column])
    reason = None
    if together:
        reason = f"it varied only together with {joined(together)}"
    elif blocks - covariates.shape[1] - 2 < _MIN_FREEDOM:
        reason = f"{counted(blocks, 'block')} are too few to adjust for {joined(list(others))}"
    return _Design(
        param, at, covariates, {name: held for name, (_, held) in others.items()}, reason
    )


def _determine(columns: Iterable[Numbers], column: Numbers) -> bool:
    """Check that a column is a sum of multiples of these columns and of a constant."""
    basis = np.column_stack([np.ones_like(column), *columns])
    rank = np.linalg.matrix_rank
    return bool(rank(np.column_stack([basis, column])) == rank(basis))


def _coded(values: Sequence[ConfigValue | None]) -> _Coded:
    """Return a param as columns that are 0 at the value at which it is held, and that value.

    A number takes its log if it is positive everywhere, itself otherwise, and is held at its
    median. If only some configs have it, a second column marks them, and it is held as most have
    it. Anything else takes a column for each value except the most frequent one.
    """
    present = [float(value) for value in values if is_finite(value)]
    if len(present) < sum(value is not None for value in values):
        texts = [_ABSENT if value is None else str(value) for value in values]
        most = max(sorted(set(texts)), key=texts.count)
        rest = sorted(set(texts) - {most})
        return [np.array([float(text == other) for text in texts]) for other in rest], most
    median = median_low(present)
    if len(present) == len(values):
        numbers = np.array(present)
        return [np.log(numbers / median) if numbers.min() > 0 else numbers - median], median
    is_there = np.array([float(value is not None) for value in values])
    off = np.array([0.0 if value is None else float(value) - median for value in values])
    usual = float(2 * is_there.sum() > len(values))
    return [off, is_there - usual], median if usual else _ABSENT
