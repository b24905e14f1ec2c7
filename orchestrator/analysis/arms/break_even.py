"""Break-evens: the number of steps after which a longer compilation pays off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy.special import stdtrit

from orchestrator.analysis.measures import PER_STEP, value_of
from orchestrator.analysis.pairing.baselines import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    t_interval,
)
from orchestrator.core.arms import Arm

_STEPS = tuple(metric for metric in PER_STEP if metric.endswith("_ms"))


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
    rounds: CompleteRounds, baseline: Baseline | None, confidence: float = CONFIDENCE
) -> tuple[BreakEven, ...]:
    """Compare the compilation of each arm with its baseline's, of pairs with enough blocks.

    The arm that compiles longer comes first. Intervals have the level `confidence` if there is one
    pair.
    """
    every = [trial for arm in rounds.trials for trial in rounds.all_trials(arm)]
    are_fresh = all(trial.trainer_trials == 0 for trial in every)
    pairs = [
        (arm, base, expenses)
        for arm, base in (baseline.pairs(rounds.trials) if baseline else [])
        if base in rounds.trials
        and arm.hardware == base.hardware
        and arm.variant == base.variant
        and len(expenses := _expenses(rounds, arm, base, are_fresh=are_fresh)) >= MIN_BLOCKS
    ]
    corrected = 1 - (1 - confidence) / max(1, len(pairs))
    return tuple(_break_even(*of_pair, corrected) for of_pair in pairs)


def _expenses(rounds: CompleteRounds, arm: Arm, base: Arm, *, are_fresh: bool) -> list[_Expense]:
    paid, of_base = (_paid(rounds, side, are_fresh=are_fresh) for side in (arm, base))
    return [
        _Expense(
            fmean(compile_s for compile_s, _ in paid[block])
            - fmean(compile_s for compile_s, _ in of_base[block]),
            fmean(step_ms for _, step_ms in of_base[block])
            - fmean(step_ms for _, step_ms in paid[block]),
        )
        for block in sorted(paid.keys() & of_base.keys())
    ]


def _paid(
    rounds: CompleteRounds, arm: Arm, *, are_fresh: bool
) -> dict[int, list[tuple[float, float]]]:
    """Return seconds of compiling and milliseconds of a step of such trials, by block."""
    paid: dict[int, list[tuple[float, float]]] = {}
    for trial in rounds.all_trials(arm):
        compile_s = value_of(trial, "compile_s")
        steps = (value_of(trial, metric) for metric in _STEPS)
        step_ms = next((value for value in steps if value is not None), None)
        if compile_s is None or step_ms is None or (trial.trainer_trials == 0) != are_fresh:
            continue
        paid.setdefault(trial.block, []).append((compile_s, step_ms))
    return paid


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
