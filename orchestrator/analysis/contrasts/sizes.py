"""Sizes: what a larger config does to the time and the results of each arm, and to its speed-up.

One regression of each arm's values on the configs gives its effects; one of its speed-up over the
baseline tells where it is faster. `docs/trust.md` has the methods and their sources (Fieller
1954, Bonferroni, Scheffé).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import fdtri

from orchestrator.analysis.contrasts.contrast import (
    Contrast,
    Qualifier,
    Question,
    Scale,
    Unit,
    Verdict,
)
from orchestrator.analysis.contrasts.families import Judging
from orchestrator.analysis.contrasts.matrix import Matrix
from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.analysis.statistics.estimates import CONFIDENCE, Estimate
from orchestrator.analysis.statistics.formatting import inverse, number
from orchestrator.analysis.statistics.regression import (
    BlockPoint,
    Change,
    CurvePoint,
    Design,
    DesignOf,
    Fit,
    Numbers,
)
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Scalar

_GRID, _THINNED = 121, 3
"""Points of a line, of which every third one is in the result."""


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """An arm's speed-up over its baseline along one size, within the range that was tried.

    Attributes:
        arm: The arm.
        baseline: The arm it is compared with.
        metric: The metric of the speed-up.
        size: The parameter along the curve.
        points: The blocks, adjusted to the other parameters at `held`; not adjusted without a fit.
        curve: The fit at `held`, with a 95 % band for all curves of the report together.
        held: The values of the other parameters.
        faster: On which side of the crossing the arm is the faster one; None without a crossing.
        crossing: The size at which the curve crosses 1. Within its interval either arm may be
            faster.
        reason: Why there is no fit; None if there is one.
    """

    arm: Arm
    baseline: Arm
    metric: str
    size: str
    points: tuple[BlockPoint, ...]
    curve: tuple[CurvePoint, ...] = ()
    held: Mapping[str, Scalar] = field(default_factory=dict)
    faster: Literal["above", "below"] | None = None
    crossing: Estimate | None = None
    reason: str | None = None


def own_effects(
    matrix: Matrix, baseline: Baseline | None, design_of: DesignOf, judging: Judging
) -> tuple[Contrast, ...]:
    """Return what each param does to the metric of each baseline; none for repeats of one config.

    The subject is the baseline at the changed value, the reference the baseline itself. Effects
    without an interval are left out.
    """
    if matrix.unit == Unit.REPEAT or not matrix.rows or baseline is None:
        return ()
    design = _design(matrix, design_of)
    bases = [arm for arm in matrix.arms if arm in baseline.of.values()]
    confidence = _corrected(judging, _count_intervals(design, design.params) * len(bases))
    found = list[Contrast]()
    for arm in bases:
        fit = _fit(matrix, {arm: 1.0}, design, confidence)
        for name, change in _known_changes(fit, design.params):
            subject = f"{arm}, {change_text(name, change)}"
            found.append(_contrast(matrix, (arm,), subject, str(arm), change.effect, judging))
    return tuple(found)


def speed_along_sizes(
    matrix: Matrix, baseline: Baseline | None, design_of: DesignOf, judging: Judging
) -> tuple[tuple[Contrast, ...], tuple[SpeedCurve, ...]]:
    """Return whether the speed-up of each arm depends on each size, and its curve along it.

    A contrast compares the effect of the size on the arm with its effect on the baseline. Effects
    without an interval are left out.
    """
    if matrix.unit == Unit.REPEAT or not matrix.rows or baseline is None:
        return (), ()
    design = _design(matrix, design_of)
    sizes = [name for name, param in design.params.items() if param.is_size]
    pairs = [
        (arm, base)
        for arm, base in baseline.pairs(matrix.arms)
        if base in matrix.arms and not {arm, base} & set(judging.other_mathematics)
    ]
    of_curves, of_effects = (
        _corrected(judging, count * len(pairs))
        for count in (
            sum(design.refusal(size) is None for size in sizes),
            _count_intervals(design, sizes),
        )
    )
    contrasts, curves = list[Contrast](), list[SpeedCurve]()
    for arm, base in pairs:
        weights = {base: 1.0, arm: -1.0}
        fit = _fit(matrix, weights, design, of_curves)
        curves += [_curve(fit, arm, base, matrix.metric, size) for size in sizes]
        for size, change in _known_changes(_fit(matrix, weights, design, of_effects), sizes):
            text = change_text(size, change)
            sides = f"{arm}, {text}", f"{base}, {text}"
            slower = inverse(change.effect)
            contrasts.append(_contrast(matrix, (arm, base), *sides, slower, judging))
    return tuple(contrasts), tuple(curves)


def _known_changes(fit: Fit, params: Iterable[str]) -> Iterator[tuple[str, Change]]:
    """Yield the effects of params that have an interval."""
    for name in params:
        if fit.design.refusal(name) is None:
            for change in fit.changes(name):
                if math.isfinite(change.effect.high):
                    yield name, change


def _count_intervals(design: Design, params: Iterable[str]) -> int:
    """Return how many effects of these params have an interval, which the blocks alone decide."""
    any_fit = Fit(design, dict.fromkeys(range(design.blocks), 0.0), CONFIDENCE, is_ratio=False)
    return sum(1 for _ in _known_changes(any_fit, params))


def change_text(param: str, change: Change) -> str:
    """Return how a change reads: `units doubled`, `units 92 to 112`, `cell gru, not lstm`."""
    words = param.replace("_", " ")
    if change.of is None or change.to is None:
        return f"{words} doubled"
    of, to = (number(v) if isinstance(v, float) else str(v) for v in (change.of, change.to))
    return f"{words} {of} to {to}" if change.is_whole_range else f"{words} {to}, not {of}"


def _design(matrix: Matrix, design_of: DesignOf) -> Design:
    return design_of(tuple(block for block, _ in matrix.rows))


def _corrected(judging: Judging, family: int) -> float:
    """Return the level of each interval, corrected for their number (Bonferroni)."""
    return 1 - judging.error / max(1, family)


def _fit(matrix: Matrix, weights: Mapping[Arm, float], design: Design, confidence: float) -> Fit:
    """Fit the arms' values with these weights: a ratio, or a sum, for each block."""
    is_ratio = matrix.scale == Scale.RATIO
    combined = matrix.combined(weights)
    values = {
        block: math.exp(value) if is_ratio else value
        for (block, _), value in zip(matrix.rows, combined, strict=True)
    }
    return Fit(design, values, confidence, is_ratio=is_ratio)


def _contrast(
    matrix: Matrix,
    arms: Iterable[Arm],
    subject: str,
    reference: str,
    effect: Estimate,
    judging: Judging,
) -> Contrast:
    """Return an effect on a metric as a contrast; a factor is how many times more it takes."""
    shown = inverse(effect) if matrix.scale == Scale.RATIO else effect
    neutral = 1.0 if matrix.scale == Scale.RATIO else 0.0
    is_more_better = matrix.scale == Scale.RATIO or matrix.direction == "maximize"
    low, high = (neutral - judging.margin, neutral + judging.margin)
    if matrix.scale == Scale.RATIO:
        low = 1 / high
    if low <= shown.low and shown.high <= high:
        verdict = Verdict.SAME
    elif shown.low > neutral:
        verdict = Verdict.BETTER if is_more_better else Verdict.WORSE
    elif shown.high < neutral:
        verdict = Verdict.WORSE if is_more_better else Verdict.BETTER
    else:
        verdict = Verdict.OPEN
    return Contrast(
        question=Question.SIZE,
        subject=subject,
        reference=reference,
        metric=matrix.metric,
        scale=matrix.scale,
        estimate=shown,
        lowest=shown.value,
        highest=shown.value,
        blocks=len(matrix.rows),
        unit=matrix.unit,
        margin=judging.margin,
        verdict=verdict,
        qualifier=Qualifier.BUSY if matrix.disturbed_rows(arms) else None,
    )


def _curve(fit: Fit, arm: Arm, base: Arm, metric: str, size: str) -> SpeedCurve:
    """Return the fitted speed-up along one size, and where it crosses 1."""
    design, points = fit.design, fit.points(size)
    if reason := design.refusal(size):
        return SpeedCurve(arm, base, metric, size, points, reason=reason)
    curve = fit.curve(size, _GRID)
    is_line = design.params[size].scale != "levels"
    faster, crossing = _crossing(fit, curve) if is_line else (None, None)
    return SpeedCurve(
        arm,
        base,
        metric,
        size,
        points,
        curve=curve[:: _THINNED if is_line else 1],
        held={name: param.held for name, param in design.params.items() if name != size},
        faster=faster,
        crossing=crossing,
    )


def _crossing(
    fit: Fit, curve: Sequence[CurvePoint]
) -> tuple[Literal["above", "below"] | None, Estimate | None]:
    """Return on which side the arm is faster, and the size at which the curve crosses 1.

    Its interval lies between the nearest sizes at which the arm is faster and slower. None of both
    unless each of these is shown somewhere.
    """
    grid: Numbers = np.array([float(point.at) for point in curve])
    middle, low, high = np.log([[point.value, point.low, point.high] for point in curve]).T
    # Scheffé's band for all sizes together: "A method for judging all contrasts in the analysis of
    # variance", Biometrika 40(1/2), 1953
    band = math.sqrt(2 * fdtri(2, fit.design.freedom, fit.confidence)) / fit.quantile
    if not np.any(np.abs(middle) > band * (high - middle)):
        return None, None
    faster, slower = grid[low > 0], grid[high < 0]
    if not len(faster) or not len(slower):
        return None, None
    side: Literal["above", "below"] = "above" if faster[0] > slower[0] else "below"
    before, after = (slower[-1], faster[0]) if side == "above" else (faster[-1], slower[0])
    change = int(np.nonzero(np.diff(np.sign(middle)))[0][0])
    (x0, x1), (y0, y1) = np.log(grid[change : change + 2]), middle[change : change + 2]
    value = float(np.exp(x0 - y0 * (x1 - x0) / (y1 - y0)))
    return side, Estimate(fit.design.blocks, value, float(before), float(after))
