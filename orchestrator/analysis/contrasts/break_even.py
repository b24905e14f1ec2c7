"""Break-evens: the number of steps after which a longer compilation pays off."""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from orchestrator.analysis.contrasts.matrix import Matrix
from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    t_interval,
)
from orchestrator.analysis.statistics.regression import Numbers
from orchestrator.core.arms import Arm

STEPS = ("step_ms", "predict_ms")
"""What a compilation may pay off by: the first of these that was timed."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The number of steps after which an arm that compiles longer than another one has paid off.

    Only trials of warm trainers count, because the first trial of a trainer includes its start; if
    all trainers are fresh, all count. Intervals are corrected for the number of pairs in the report
    (Bonferroni). Where predictions were timed, a step is the prediction of a batch.

    Attributes:
        arm: The arm that compiles longer.
        baseline: The other arm, on the same hardware.
        extra_compile_s: How much longer the arm compiles, in seconds.
        saved_step_ms: How much shorter its step is, in milliseconds.
        steps: The ratio of both means with Fieller's interval; None unless both differences are
            significant.
        blocks: The number of blocks behind the means.
    """

    arm: Arm
    baseline: Arm
    extra_compile_s: Estimate
    saved_step_ms: Estimate
    steps: Estimate | None
    blocks: int


def break_evens(
    compiled: Matrix,
    timed: Matrix,
    baseline: Baseline | None,
    *,
    excluded: Collection[Arm] = (),
    confidence: float = CONFIDENCE,
) -> tuple[BreakEven, ...]:
    """Compare the compilation of each arm with its baseline's, of pairs with enough blocks.

    `compiled` has the seconds of compiling, `timed` the milliseconds of a step. The arm that
    compiles longer comes first. Pairs with an `excluded` arm are left out. Intervals have the level
    `confidence` if there is one pair.
    """
    shared = [row for row in compiled.rows if row in timed.rows]
    if len(shared) < MIN_BLOCKS:
        return ()
    arms = [arm for arm in compiled.arms if arm in timed.arms and arm not in excluded]
    pairs = [
        (arm, base)
        for arm, base in (baseline.pairs(arms) if baseline else [])
        if base in arms and arm.hardware == base.hardware and arm.variant == base.variant
    ]
    corrected = 1 - (1 - confidence) / max(1, len(pairs))
    seconds, milliseconds = (
        {arm: of.column(arm, shared) for arm in arms} for of in (compiled, timed)
    )
    found = []
    for arm, base in pairs:
        extra_s, saved_ms = seconds[arm] - seconds[base], milliseconds[base] - milliseconds[arm]
        if extra_s.sum() >= 0:
            found.append(_break_even(arm, base, extra_s, saved_ms, corrected))
        else:
            found.append(_break_even(base, arm, -extra_s, -saved_ms, corrected))
    return tuple(found)


def _break_even(
    arm: Arm, base: Arm, extra_s: Numbers, saved_ms: Numbers, confidence: float
) -> BreakEven:
    """Return the pair by the blocks' seconds of compiling and milliseconds of a step."""
    extra = t_interval(extra_s.tolist(), confidence)
    saved = t_interval(saved_ms.tolist(), confidence)
    assert extra is not None  # of MIN_BLOCKS blocks
    assert saved is not None
    pays = extra.low > 0 and saved.low > 0
    steps = _ratio_of_means(1000 * extra_s, saved_ms, confidence) if pays else None
    return BreakEven(arm, base, extra, saved, steps, len(extra_s))


def _ratio_of_means(x: Numbers, y: Numbers, confidence: float) -> Estimate:
    """Return the ratio of two means that are above 0, with Fieller's interval."""
    # Source: Fieller, "Some problems in interval estimation", Journal of the Royal Statistical
    # Society B 16(2), 1954: the ratios r for which the mean of x - r y does not differ from 0.
    n = len(x)
    (xx, xy), (_, yy) = np.cov(x, y) / n
    t2 = float(stdtrit(n - 1, (1 + confidence) / 2)) ** 2
    a, b, c = y.mean() ** 2 - t2 * yy, x.mean() * y.mean() - t2 * xy, x.mean() ** 2 - t2 * xx
    root = math.sqrt(max(0.0, b * b - a * c))
    value = float(x.mean() / y.mean())
    return Estimate(n, value, float((b - root) / a), float((b + root) / a))
