"""Break-even: the number of steps after which a longer compilation pays off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from orchestrator.analysis.pairing.baseline import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate, t_interval
from orchestrator.analysis.statistics.formatting import count
from orchestrator.core.arms import Arm
from orchestrator.core.names import known_implementation, mathematics_of

BreakEvenVerdict = Literal["pays", "never", "inconclusive"]
Trainers = Literal["warm", "fresh"]

_STEP, _COMPILE = "step_ms", "compile_s"


@dataclass(frozen=True, slots=True)
class BlockExpense:
    """One block: the extra compile time of the arm, and the time saved per step."""

    block: int
    extra_compile_s: float
    saved_step_ms: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """An arm that compiles longer than another, and the steps after which that pays off.

    `steps` is the ratio of the means over blocks with Fieller's interval; None if it never pays off
    or is inconclusive, for `reason`. Only trials of warm trainers count, because the first trial
    includes the start of its trainer. If all trainers are fresh (`trainers`), all trials count.
    All intervals are corrected for the number of pairs in the report (Bonferroni).
    """

    arm: Arm
    baseline: Arm
    verdict: BreakEvenVerdict
    steps: Estimate | None
    extra_compile_s: Estimate | None
    saved_step_ms: Estimate | None
    blocks: tuple[BlockExpense, ...]
    trainers: Trainers = "warm"
    reason: str | None = None


def break_evens(
    matched: CompleteRounds, baseline: Baseline | None, confidence: float = CONFIDENCE
) -> tuple[BreakEven, ...]:
    """Compare, on each hardware, every arm with the baseline's implementation, and +xla with none.

    Only pairs with the same mathematics; the arm that compiles longer comes first.

    Args:
        matched: the complete rounds.
        baseline: the baseline of each arm.
        confidence: the level of the intervals, for one pair.
    """
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    trainers: Trainers = "fresh" if all(t.trainer_trials == 0 for t in every) else "warm"
    pairs: dict[frozenset[Arm], tuple[Arm, Arm, tuple[BlockExpense, ...], str | None]] = {}
    for arm in matched.trials:
        for base in _partners(arm, matched.trials, baseline):
            pair = frozenset((arm, base))
            expenses, reason = _expenses(matched, arm, base, trainers)
            if pair not in pairs and expenses:
                pairs[pair] = (arm, base, expenses, reason)
    corrected = 1 - (1 - confidence) / max(1, len(pairs))
    return tuple(_break_even(*pair, trainers, corrected) for pair in pairs.values())


def _partners(arm: Arm, arms: Iterable[Arm], baseline: Baseline | None) -> list[Arm]:
    """Return the arms on the same hardware whose compilation this arm's is compared with."""
    names = {base.implementation for base in baseline.of.values()} if baseline else set()
    implementation = known_implementation(arm)
    if implementation and "xla" in implementation.options:
        rest = tuple(option for option in implementation.options if option != "xla")
        names.add(str(replace(implementation, options=rest)))
    return [
        other
        for other in arms
        if other.implementation in names
        and other != arm
        and other.hardware == arm.hardware
        and mathematics_of(other) == mathematics_of(arm)
    ]


def _expenses(
    matched: CompleteRounds, arm: Arm, base: Arm, trainers: Trainers
) -> tuple[tuple[BlockExpense, ...], str | None]:
    """Return the expenses of the blocks with such a trainer on both sides, over these rounds.

    Also return why too many of the rounds are disturbed for a verdict, as for speed-ups.
    """
    ours, theirs = _paid(matched, arm, trainers), _paid(matched, base, trainers)
    selection = matched.select(ours.keys() & theirs.keys(), (arm, base))
    expenses = (
        BlockExpense(
            block,
            fmean(ours[key][0] - theirs[key][0] for key in rounds),
            fmean(theirs[key][1] - ours[key][1] for key in rounds),
        )
        for block, rounds in selection.by_block.items()
    )
    return tuple(expenses), selection.reason


def _paid(
    matched: CompleteRounds, arm: Arm, trainers: Trainers
) -> dict[Round, tuple[float, float]]:
    """Return compile seconds and step milliseconds of the rounds that such a trainer ran."""
    times = {}
    for key, trials in matched.trials.get(arm, {}).items():
        for trial in trials:
            values = tuple(trial.metrics.get(metric, math.nan) for metric in (_COMPILE, _STEP))
            fresh = trial.trainer_trials == 0
            if fresh == (trainers == "fresh") and all(map(math.isfinite, values)):
                times[key] = (values[0], values[1])
    return times


def _break_even(
    arm: Arm,
    base: Arm,
    expenses: tuple[BlockExpense, ...],
    disturbance_reason: str | None,
    trainers: Trainers,
    confidence: float,
) -> BreakEven:
    if math.fsum(expense.extra_compile_s for expense in expenses) < 0:
        arm, base = base, arm
        expenses = tuple(
            BlockExpense(e.block, -e.extra_compile_s, -e.saved_step_ms) for e in expenses
        )
    extra = t_interval([expense.extra_compile_s for expense in expenses], confidence)
    saved = t_interval([expense.saved_step_ms for expense in expenses], confidence)
    verdict: BreakEvenVerdict = "inconclusive"
    reason, steps = disturbance_reason, None
    if extra is None or saved is None or len(expenses) < MIN_BLOCKS:
        blocks = count(len(expenses), "block")
        reason = f"{blocks} with {trainers} trainers on both; at least {MIN_BLOCKS} are needed"
    elif reason is None and extra.low <= 0:
        reason = "a difference of their compile times is not shown"
    elif reason is None and saved.high <= 0:
        verdict, reason = "never", "its steps are not shorter"
    elif reason is None and saved.low <= 0:
        reason = "a difference of their step times is not shown"
    elif reason is None:
        verdict, steps = "pays", _ratio_of_means(expenses, confidence)
    return BreakEven(arm, base, verdict, steps, extra, saved, expenses, trainers, reason)


def _ratio_of_means(expenses: Sequence[BlockExpense], confidence: float) -> Estimate:
    """Return the steps: mean seconds over mean milliseconds, with Fieller's interval.

    Both means are above 0. Source: Fieller, "Some problems in interval estimation",
    Journal of the Royal Statistical Society B 16(2), 1954: the ratios r for which the mean of
    x - r y does not differ from 0.
    """
    x = np.array([1000 * expense.extra_compile_s for expense in expenses])
    y = np.array([expense.saved_step_ms for expense in expenses])
    n = len(expenses)
    (xx, xy), (_, yy) = np.cov(x, y) / n
    t2 = float(stdtrit(n - 1, (1 + confidence) / 2)) ** 2
    a, b, c = y.mean() ** 2 - t2 * yy, x.mean() * y.mean() - t2 * xy, x.mean() ** 2 - t2 * xx
    root = math.sqrt(max(0.0, b * b - a * c))
    value = float(x.mean() / y.mean())
    return Estimate(n, value, float((b - root) / a), float((b + root) / a))
