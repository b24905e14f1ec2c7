"""Effects: what each param does to the time and accuracy of each arm; crossovers of two arms.

`docs/statistics.md` has the methods and their sources (Fieller 1954, Bonferroni, Scheffé).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.special import fdtri

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.measures import TIMES, value_of
from orchestrator.analysis.pairing import pairs
from orchestrator.analysis.pairing.complete_rounds import (
    CompleteRounds,
    Qualifier,
    RoundSelection,
)
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics import regression
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.regression import Design, DesignOf, Fit, Numbers
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import ConfigValue

_CURVE = 25
"""Points of a line's curve."""


@dataclass(frozen=True, slots=True)
class ParamEffect:
    """The effect of a param on a metric of an arm; a factor if `is_ratio`, else a difference.

    `importance` is the share of the metric's variance between configs that the param alone explains
    (of a ratio: of its logarithm). `points` are the blocks, and `curve` is the fit, both with the
    other params at `held`. Intervals have the level `confidence`. If there is no fit, `reason`
    explains it, and the points are not adjusted. `qualifier` is as in a `Comparison`.
    """

    arm: Arm
    metric: str
    param: str
    is_ratio: bool
    points: tuple[regression.BlockPoint, ...]
    changes: tuple[regression.Change, ...] = ()
    importance: float | None = None
    curve: tuple[regression.CurvePoint, ...] = ()
    held: Mapping[str, ConfigValue] = field(default_factory=dict)
    confidence: float | None = None
    qualifier: Qualifier | None = None
    reason: str | None = None


def effects(
    record: SweepRecord, matched: CompleteRounds, design_of: DesignOf, confidence: float
) -> tuple[ParamEffect, ...]:
    """Return the effects on the time of each arm, then those on its results."""
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    measured = {metric for trial in every for metric in trial.metrics}
    time = next((t for t in (pairs.time_metric(matched), *TIMES) if t in measured), None)
    metrics = list(result_metrics(record, measured))
    found: list[ParamEffect] = []
    for metric in metrics if time is None else [time, *metrics]:
        is_ratio = metric == time
        for arm in matched.trials:
            values, qualifier = _block_values(matched, arm, metric, is_ratio=is_ratio)
            if values:
                fit = Fit(design_of(tuple(values)), values, confidence, is_ratio=is_ratio)
                found += [
                    effect_of(arm, metric, fit, name, _CURVE, qualifier)
                    for name in fit.design.params
                ]
    return tuple(found)


def effect_of(
    arm: Arm, metric: str, fit: Fit, name: str, count: int, qualifier: Qualifier | None
) -> ParamEffect:
    """Return the effect of the param of this name, or the reason for none.

    The curve of a line has `count` points.
    """
    points = fit.points(name)
    effect = ParamEffect(arm, metric, name, fit.is_ratio, points, qualifier=qualifier)
    if reason := fit.design.refusal(name):
        return replace(effect, reason=reason)
    return replace(
        effect,
        changes=fit.changes(name),
        importance=fit.importance(name),
        curve=fit.curve(name, count),
        held={param: term.held for param, term in fit.design.params.items() if param != name},
        confidence=fit.confidence,
    )


def _block_values(
    matched: CompleteRounds, arm: Arm, metric: str, *, is_ratio: bool
) -> tuple[dict[int, float], Qualifier | None]:
    """Return the mean of each block, and what limits them; times are over selected rounds."""
    mean: pairs.Mean = pairs.geometric if is_ratio else fmean
    if is_ratio:
        values = pairs.positive_values(matched, arm, metric)
    else:
        values = pairs.round_values(
            matched.trials[arm], lambda trial: value_of(trial, metric), mean
        )
    selection = matched.select(values, (arm,)) if is_ratio else RoundSelection.of_all(values)
    means = {
        block: mean([values[place].value for place in places])
        for block, places in selection.by_block.items()
    }
    return means, selection.qualifier


RegionVerdict = Literal["faster", "slower", "same", "inconclusive"]

_GRID, _THINNED = 121, 3
"""Points of a line, of which every third one is in the result."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range of the param with one verdict."""

    low: float
    high: float
    verdict: RegionVerdict


@dataclass(frozen=True, slots=True)
class Crossover:
    """An arm's speed-up over another along one size, within what was tried.

    `effect` is the effect of the size on the speed-up, with a level that is corrected for all
    curves of the report; its `qualifier` is the comparison's. `regions` are ordered by rising
    values. If the arms cross, the arm is the faster one `above` or `below` the `crossing`, the
    value at which the curve crosses 1. If fewer than four values were tried there is no line.
    `reason` explains an `inconclusive` verdict.
    """

    baseline: Arm
    effect: ParamEffect
    verdict: RegionVerdict | Literal["crosses", "partly"] = "inconclusive"
    faster: Literal["above", "below"] | None = None
    crossing: Estimate | None = None
    regions: tuple[Region, ...] = ()
    reason: str | None = None


def crossovers(
    comparisons: Sequence[Comparison], design_of: DesignOf, margin: float
) -> tuple[Crossover, ...]:
    """Return the crossovers of every compared arm with its baseline, along every varied size.

    A speed-up that differs from 1 by less than the margin (a share) is the same.
    """
    curves: list[tuple[Comparison, str, Design]] = []
    for comparison in comparisons:
        if comparison.baseline is not None and comparison.pairs:
            design = design_of(tuple(dict.fromkeys(pair.block for pair in comparison.pairs)))
            sizes = [name for name, param in design.params.items() if param.is_size]
            curves += [(comparison, size, design) for size in sizes]
    family = sum(design.refusal(size) is None for _, size, design in curves)
    return tuple(_crossover_along(*curve, margin, family) for curve in curves)


def _crossover_along(
    comparison: Comparison, name: str, design: Design, margin: float, family: int
) -> Crossover:
    """Fit the speed-up of an arm along one size, and return where it is faster and slower.

    `family` is the number of such curves in the report; the level is corrected for all of them.
    """
    base, metric = comparison.baseline, comparison.metric
    assert base is not None
    assert metric is not None  # or there would be no pair
    values = {pair.block: pair.baseline / pair.arm for pair in comparison.pairs}
    confidence = 1 - (1 - comparison.plain_confidence) / max(1, family)
    fit = Fit(design, values, confidence, is_ratio=True)
    effect = effect_of(comparison.arm, metric, fit, name, _GRID, comparison.qualifier)
    if effect.reason:
        return Crossover(base, effect, reason=effect.reason)
    grid = np.array([float(point.at) for point in effect.curve])
    with np.errstate(divide="ignore"):  # a level without an interval is between 0 and infinite
        middle, low, high = np.log([[p.value, p.low, p.high] for p in effect.curve]).T
    is_line = design.params[name].scale != "levels"
    effect = replace(effect, curve=effect.curve[:: _THINNED if is_line else 1])
    # Scheffé's band for all values together: "A method for judging all contrasts in the analysis of
    # variance", Biometrika 40(1/2), 1953
    free = 2 if is_line else len(grid)
    band = math.sqrt(free * fdtri(free, design.freedom, confidence)) / fit.quantile
    differs = bool(np.any(np.abs(middle) > band * (high - middle)))
    regions = _regions(grid, low, high, margin, differs=differs)
    verdicts = [region.verdict for region in regions]
    sides = tuple(verdict for verdict in verdicts if verdict in ("faster", "slower"))
    if is_line and sides == (verdicts[0], verdicts[-1]) and sides[0] != sides[1]:
        crossing = _crossing(len(values), regions, grid, middle)
        faster: Literal["above", "below"] = "above" if sides[1] == "faster" else "below"
        return Crossover(base, effect, "crosses", faster, crossing, regions)
    if len(verdicts) > 1:
        return Crossover(base, effect, "partly", regions=regions)
    is_open = verdicts[0] == "inconclusive"
    reason = "the band of the curve includes 1 at all sizes tried" if is_open else None
    return Crossover(base, effect, verdicts[0], regions=regions, reason=reason)


def _regions(
    grid: Numbers, lows: Numbers, highs: Numbers, margin: float, *, differs: bool
) -> tuple[Region, ...]:
    """Return the ranges of the grid with one verdict each; they meet between two points."""
    within = np.log1p(margin)
    verdicts: list[RegionVerdict] = [
        "same" if -within < low and high < within
        else "faster" if low > 0 and differs
        else "slower" if high < 0 and differs
        else "inconclusive"
        for low, high in zip(lows, highs, strict=True)
    ]  # fmt: skip
    ends = [grid[0], *np.sqrt(grid[:-1] * grid[1:]), grid[-1]]
    runs = [list(run) for _, run in groupby(range(len(grid)), key=verdicts.__getitem__)]
    return tuple(
        Region(float(ends[run[0]]), float(ends[run[-1] + 1]), verdicts[run[0]]) for run in runs
    )


def _crossing(blocks: int, regions: Sequence[Region], grid: Numbers, middle: Numbers) -> Estimate:
    """Return the root of the curve, and the range between the nearest decided points."""
    change = int(np.nonzero(np.diff(np.sign(middle)))[0][0])
    (x0, x1), (y0, y1) = np.log(grid[change : change + 2]), middle[change : change + 2]
    value = float(np.exp(x0 - y0 * (x1 - x0) / (y1 - y0)))
    sides = [region for region in regions if region.verdict in ("faster", "slower")]
    low, high = grid[grid < sides[0].high][-1], grid[grid > sides[1].low][0]
    return Estimate(blocks, value, float(low), float(high))
