"""How many steps a longer compilation needs to pay for itself ("XLA pays after N steps")."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from orchestrator.analysis.pairing.baseline import Baseline
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Round
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Estimate, t_interval
from orchestrator.analysis.statistics.quiet_blocks import disturbance_reason
from orchestrator.core.names import known_implementation, mathematics_of
from orchestrator.core.trial import Arm

BreakEvenVerdict = Literal["pays", "never", "inconclusive"]
Trainers = Literal["warm", "fresh"]

_STEP, _COMPILE = "step_ms", "compile_s"


@dataclass(frozen=True, slots=True)
class BlockExpense:
    """One block: how much longer the arm compiles, and by how much its step is shorter."""

    block: int
    extra_compile_s: float
    saved_step_ms: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """An arm that compiles longer than another, and after how many steps it has caught up.

    `steps` is the ratio of the means over blocks with Fieller's interval; None where it is never,
    or cannot be told, for `reason`. Only warm trainers' trials count, since the first pays for its
    start; where all are fresh (`trainers`) all pay for it alike, and count.
    All intervals are wide enough for all pairs of the report to be right together (Bonferroni).
    """

    arm: Arm
    baseline: Arm
    verdict: BreakEvenVerdict
    steps: Estimate | None
    extra_compile_s: Estimate | None
    saved_step_ms: Estimate | None
    blocks: tuple[BlockExpense, ...]
    trainers: Trainers = "warm"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Expenses:
    """What two arms pay, over what `trainers`; `disturbance_reason` is why too many blocks were
    disturbed.
    """

    blocks: tuple[BlockExpense, ...]
    trainers: Trainers
    disturbance_reason: str | None


def break_evens(
    matched: CompleteRounds, baseline: Baseline | None, confidence: float = CONFIDENCE
) -> tuple[BreakEven, ...]:
    """On each hardware: every arm beside the baseline's implementation, and +xla beside without.

    Pairs that compute alike; of each, the arm that compiles longer comes first.

    Args:
        matched: the trials.
        baseline: what they are compared with.
        confidence: the level of the intervals, for one pair.
    """
    trainers = _trainers(matched)
    found: dict[frozenset[Arm], tuple[Arm, Arm, _Expenses]] = {}
    for arm in matched.trials:
        for base in _beside(arm, matched.trials, baseline):
            pair = frozenset((arm, base))
            expenses = None if pair in found else _expenses(matched, arm, base, trainers)
            if expenses is not None and expenses.blocks:
                found[pair] = (arm, base, expenses)
    each_one = 1 - (1 - confidence) / max(1, len(found))
    return tuple(_break_even(*each, each_one) for each in found.values())


def _beside(arm: Arm, arms: Iterable[Arm], baseline: Baseline | None) -> list[Arm]:
    """The arms on the same hardware whose compilation this arm's is to be held against."""
    names = {each.implementation for each in baseline.of.values()} if baseline else set()
    known = known_implementation(arm)
    if known and "xla" in known.options:
        rest = tuple(option for option in known.options if option != "xla")
        names.add(str(replace(known, options=rest)))
    return [
        each
        for each in arms
        if each.implementation in names
        and each != arm
        and each.hardware == arm.hardware
        and mathematics_of(each) == mathematics_of(arm)
    ]


def _trainers(matched: CompleteRounds) -> Trainers:
    """Which trials count, by the rule that the report's other measures go by (`measures_of`)."""
    trials = (
        trial for rounds in matched.trials.values() for own in rounds.values() for trial in own
    )
    return "fresh" if all(trial.trainer_trials == 0 for trial in trials) else "warm"


def _expenses(matched: CompleteRounds, arm: Arm, base: Arm, trainers: Trainers) -> _Expenses:
    """The blocks in which both had such a trainer, over the rounds in which both had one.

    As for speed-ups, quiet rounds are enough where there are blocks enough that have one.
    """
    ours, theirs = _paid(matched, arm, trainers), _paid(matched, base, trainers)
    shared = sorted((ours.keys() & theirs.keys()) - matched.not_interleaved((arm, base)))
    reasons = (matched.disturbances.get(side, {}) for side in (arm, base))
    noisy = set(shared).intersection(chain.from_iterable(reasons))
    quiet = [each for each in shared if each not in noisy]
    used, undisturbed, disturbed = (len({block for block, _ in r}) for r in (shared, quiet, noisy))
    blocks: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for each in quiet if undisturbed >= MIN_BLOCKS else shared:
        (compile_s, step_ms), (base_compile_s, base_step_ms) = ours[each], theirs[each]
        blocks[each[0]].append((compile_s - base_compile_s, base_step_ms - step_ms))
    expenses = (
        BlockExpense(block, *(math.fsum(side) / len(side) for side in zip(*rounds, strict=True)))
        for block, rounds in blocks.items()
    )
    return _Expenses(tuple(expenses), trainers, disturbance_reason(used, undisturbed, disturbed))


def _paid(
    matched: CompleteRounds, arm: Arm, trainers: Trainers
) -> dict[Round, tuple[float, float]]:
    """Compile seconds and step milliseconds of the rounds that such a trainer ran."""
    found = {}
    for each, trials in matched.trials.get(arm, {}).items():
        for trial in trials:
            told = tuple(trial.metrics.get(metric, math.nan) for metric in (_COMPILE, _STEP))
            fresh = trial.trainer_trials == 0
            if fresh == (trainers == "fresh") and all(map(math.isfinite, told)):
                found[each] = (told[0], told[1])
    return found


def _break_even(arm: Arm, base: Arm, paid: _Expenses, confidence: float) -> BreakEven:
    expenses: Sequence[BlockExpense] = paid.blocks
    if math.fsum(each.extra_compile_s for each in expenses) < 0:
        arm, base = base, arm
        expenses = [BlockExpense(e.block, -e.extra_compile_s, -e.saved_step_ms) for e in expenses]
    extra = t_interval([each.extra_compile_s for each in expenses], confidence)
    saved = t_interval([each.saved_step_ms for each in expenses], confidence)
    told = BreakEven(arm, base, "inconclusive", None, extra, saved, tuple(expenses), paid.trainers)
    if extra is None or saved is None or len(expenses) < MIN_BLOCKS:
        blocks = f"{len(expenses)} block{'' if len(expenses) == 1 else 's'}"
        reason = f"{blocks} with {paid.trainers} trainers on both; at least {MIN_BLOCKS} are needed"
        return replace(told, reason=reason)
    if paid.disturbance_reason:
        return replace(told, reason=paid.disturbance_reason)
    if extra.low <= 0:
        return replace(told, reason="they compile equally long, as far as can be told")
    if saved.high <= 0:
        return replace(told, verdict="never", reason="its steps are no shorter")
    if saved.low <= 0:
        return replace(told, reason="whether its steps are shorter cannot be told")
    return replace(told, verdict="pays", steps=_ratio_of_means(expenses, confidence))


def _ratio_of_means(expenses: Sequence[BlockExpense], confidence: float) -> Estimate:
    """Steps: mean seconds over mean milliseconds, with Fieller's interval for a ratio of means.

    Both means are known to be above 0. Source: Fieller, "Some problems in interval estimation",
    Journal of the Royal Statistical Society B 16(2), 1954: the ratios r for which the mean of
    x - r y is not told apart from 0.
    """
    x = np.array([1000 * each.extra_compile_s for each in expenses])
    y = np.array([each.saved_step_ms for each in expenses])
    n = len(expenses)
    (xx, xy), (_, yy) = np.cov(x, y) / n
    t2 = float(stdtrit(n - 1, (1 + confidence) / 2)) ** 2
    a, b, c = y.mean() ** 2 - t2 * yy, x.mean() * y.mean() - t2 * xy, x.mean() ** 2 - t2 * xx
    root = math.sqrt(max(0.0, b * b - a * c))
    value = float(x.mean() / y.mean())
    return Estimate(n, value, float((b - root) / a), float((b + root) / a))
