"""Break-evens: the number of steps after which a longer compilation pays off."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

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
from orchestrator.core.arms import Arm

STEPS = ("step_ms", "predict_ms")
"""What a compilation may pay off by: the first of these that was timed."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """An arm that compiles longer than another on the same hardware, and what that saves per step.

    `steps` is the ratio of the means over `blocks` with Fieller's interval; None unless both a
    longer compilation and a shorter step are shown. A step is the prediction of a batch where
    predictions were timed. Only trials of warm trainers count, as the first trial of a trainer
    includes its start, or all if all trainers are fresh. Intervals are corrected for the number of
    pairs in the report (Bonferroni).
    """

    arm: Arm
    baseline: Arm
    extra_compile_s: Estimate
    saved_step_ms: Estimate
    steps: Estimate | None
    blocks: int


@dataclass(frozen=True, slots=True)
class _Expense:
    """One block: the extra compile time of the arm, and the time saved per step."""

    extra_compile_s: float
    saved_step_ms: float


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
        extra = (seconds[arm] - seconds[base]).tolist()
        saved = (milliseconds[base] - milliseconds[arm]).tolist()
        expenses = [_Expense(*of_row) for of_row in zip(extra, saved, strict=True)]
        found.append(_break_even(arm, base, expenses, corrected))
    return tuple(found)


def _break_even(arm: Arm, base: Arm, expenses: Sequence[_Expense], confidence: float) -> BreakEven:
    """Return the pair; the arm that compiles longer comes first."""
    if math.fsum(expense.extra_compile_s for expense in expenses) < 0:
        arm, base = base, arm
        expenses = [
            replace(e, extra_compile_s=-e.extra_compile_s, saved_step_ms=-e.saved_step_ms)
            for e in expenses
        ]
    extra = t_interval([expense.extra_compile_s for expense in expenses], confidence)
    saved = t_interval([expense.saved_step_ms for expense in expenses], confidence)
    assert extra is not None  # of MIN_BLOCKS blocks
    assert saved is not None
    pays = extra.low > 0 and saved.low > 0
    steps = _ratio_of_means(expenses, confidence) if pays else None
    return BreakEven(arm, base, extra, saved, steps, len(expenses))


def _ratio_of_means(expenses: Sequence[_Expense], confidence: float) -> Estimate:
    """Return the steps: mean seconds over mean milliseconds, with Fieller's interval."""
    # Both means are above 0. Source: Fieller, "Some problems in interval estimation",
    # Journal of the Royal Statistical Society B 16(2), 1954: the ratios r for which the mean of
    # x - r y does not differ from 0.
    x = np.array([1000 * expense.extra_compile_s for expense in expenses])
    y = np.array([expense.saved_step_ms for expense in expenses])
    n = len(expenses)
    (xx, xy), (_, yy) = np.cov(x, y) / n
    t2 = float(stdtrit(n - 1, (1 + confidence) / 2)) ** 2
    a, b, c = y.mean() ** 2 - t2 * yy, x.mean() * y.mean() - t2 * xy, x.mean() ** 2 - t2 * xx
    root = math.sqrt(max(0.0, b * b - a * c))
    value = float(x.mean() / y.mean())
    return Estimate(n, value, float((b - root) / a), float((b + root) / a))
