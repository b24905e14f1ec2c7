"""Break-even: the number of steps after which a longer compilation pays off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from orchestrator.analysis.measures import value_of
from orchestrator.analysis.pairing.baseline import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate, t_interval
from orchestrator.core.arms import Arm
from orchestrator.core.names import known_implementation
from orchestrator.core.text import counted

BreakEvenVerdict = Literal["pays", "never", "inconclusive"]
Trainers = Literal["warm", "fresh"]


@dataclass(frozen=True, slots=True)
class BlockExpense:
    """One block: the extra compile time of the arm, and the time saved per step."""

    block: int
    extra_compile_s: float
    saved_step_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """An arm that compiles longer than another, and the steps after which that pays off.

    `steps` is the ratio of the means over blocks with Fieller's interval; None if it never pays off
    or is inconclusive, for `reason`. Only trials of warm trainers count, because the first trial
    includes the start of its trainer. If all trainers are fresh (`trainers`), all trials count.
    All intervals are corrected for the number of pairs in the report (Bonferroni).
    """

    arm: Arm
    baseline: Arm
    verdict: BreakEvenVerdict = "inconclusive"
    steps: Estimate | None = None
    extra_compile_s: Estimate | None = None
    saved_step_ms: Estimate | None = None
    blocks: tuple[BlockExpense, ...]
    trainers: Trainers
    reason: str | None = None


def break_evens(
    matched: CompleteRounds, baseline: Baseline | None, confidence: float = CONFIDENCE
) -> tuple[BreakEven, ...]:
    """Compare, on each hardware, every arm with the baseline's implementation, and +xla with none.

    Only pairs of the same variant; the arm that compiles longer comes first. Intervals have
    the level `confidence` if there is one pair.
    """
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    trainers: Trainers = "fresh" if all(t.trainer_trials == 0 for t in every) else "warm"
    paid = {arm: _paid(matched, arm, trainers) for arm in matched.trials}
    pairs: dict[frozenset[Arm], BreakEven] = {}
    for arm in matched.trials:
        for base in _partners(arm, matched.trials, baseline):
            ours, theirs = paid[arm], paid[base]
            selection = matched.select(ours.keys() & theirs.keys(), (arm, base))
            expenses = tuple(
                BlockExpense(
                    block,
                    fmean(ours[place][0] - theirs[place][0] for place in rounds),
                    fmean(theirs[place][1] - ours[place][1] for place in rounds),
                )
                for block, rounds in selection.by_block.items()
            )
            if expenses:
                pair = BreakEven(
                    arm=arm,
                    baseline=base,
                    blocks=expenses,
                    trainers=trainers,
                    reason="too few rounds were quiet" if selection.is_busy else None,
                )
                pairs.setdefault(frozenset((arm, base)), pair)
    corrected = 1 - (1 - confidence) / max(1, len(pairs))
    return tuple(_judged(pair, corrected) for pair in pairs.values())


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
        and other.variant == arm.variant
    ]


def _paid(
    matched: CompleteRounds, arm: Arm, trainers: Trainers
) -> dict[Round, tuple[float, float]]:
    """Return compile seconds and step milliseconds of the rounds that such a trainer ran."""
    times = {}
    for place, trials in matched.trials[arm].items():
        for trial in trials:
            compile_s, step_ms = (value_of(trial, metric) for metric in ("compile_s", "step_ms"))
            fresh = trial.trainer_trials == 0
            if fresh == (trainers == "fresh") and compile_s is not None and step_ms is not None:
                times[place] = compile_s, step_ms
    return times


def _judged(pair: BreakEven, confidence: float) -> BreakEven:
    """Return the pair with its verdict; the arm that compiles longer comes first."""
    if math.fsum(expense.extra_compile_s for expense in pair.blocks) < 0:
        turned = (BlockExpense(e.block, -e.extra_compile_s, -e.saved_step_ms) for e in pair.blocks)
        pair = replace(pair, arm=pair.baseline, baseline=pair.arm, blocks=tuple(turned))
    extra = t_interval([expense.extra_compile_s for expense in pair.blocks], confidence)
    saved = t_interval([expense.saved_step_ms for expense in pair.blocks], confidence)
    pair = replace(pair, extra_compile_s=extra, saved_step_ms=saved)
    if extra is None or saved is None or len(pair.blocks) < MIN_BLOCKS:
        blocks = f"{counted(len(pair.blocks), 'block')} with {pair.trainers} trainers on both"
        return replace(pair, reason=f"{blocks}; at least {MIN_BLOCKS} are needed")
    if pair.reason:  # too many disturbed rounds
        return pair
    if extra.low <= 0:
        return replace(pair, reason="a difference of their compile times is not shown")
    if saved.high <= 0:
        return replace(pair, verdict="never", reason="its steps are not shorter")
    if saved.low <= 0:
        return replace(pair, reason="a difference of their step times is not shown")
    return replace(pair, verdict="pays", steps=_ratio_of_means(pair.blocks, confidence))


def _ratio_of_means(expenses: Sequence[BlockExpense], confidence: float) -> Estimate:
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
