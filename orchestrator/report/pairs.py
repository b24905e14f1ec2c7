"""Two arms side by side: their times and accuracies, paired block by block."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from orchestrator.report.blocks import Matched, Round
from orchestrator.report.measures import TIMES
from orchestrator.report.records import TrialRecord
from orchestrator.report.statistics import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    t_interval,
)
from orchestrator.selector import measure_of, work_of
from orchestrator.trial import Arm

ByRound = Mapping[Round, float]
"""One number for each of an arm's complete rounds that has it."""

_WHATEVER_WORK = ("step_ms",)
"""Of the times that speed is told by, those that do not grow with the amount of work."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pair:
    """One block's values of one metric on both sides, each the mean over its shared rounds.

    Times have their geometric mean: the block's ratio is then that of its rounds, each of which is
    a pair by itself, and a round that was slow on both sides weighs no more than the others.
    Accuracies have their arithmetic mean.
    """

    block: int
    arm: float
    baseline: float
    rounds: int


@dataclass(frozen=True, slots=True)
class Paired:
    """What was measured of two arms, block by block.

    `times` and `accuracies` are the pairs of blocks. `disturbed` says for each block in which a
    side's timing was disturbed by what; `quiet_only` that such rounds are left out of `times`;
    `torn` in how many rounds two arms that should have taken turns did not: these are left out.
    """

    times: tuple[Pair, ...]
    accuracies: tuple[Pair, ...]
    disturbed: Mapping[int, str]
    quiet_only: bool
    torn: int = 0

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the baseline's time over the arm's, a block each."""
        return [math.log(pair.baseline) - math.log(pair.arm) for pair in self.times]

    @property
    def differences(self) -> list[float]:
        """The arm's accuracy minus the baseline's, a block each."""
        return [pair.arm - pair.baseline for pair in self.accuracies]

    def ratio(self, confidence: float = CONFIDENCE) -> Estimate | None:
        """The geometric mean ratio of times; None for fewer than two blocks."""
        logs = t_interval(self.log_ratios, confidence)
        return exponential(logs) if logs else None

    @property
    def difference(self) -> Estimate | None:
        """The mean difference of accuracies; None for fewer than two blocks."""
        return t_interval(self.differences)


def time_metric(matched: Matched) -> str | None:
    """What speed-ups are told by: the first of `TIMES` that at least two arms measured.

    `step_ms` is training time per sample but for the batch size, which the arms of a block
    share, so that the ratio is the same.
    """
    for metric in TIMES:
        measured = [
            any(_positive(t.metrics.get(metric)) for ts in rounds.values() for t in ts)
            for rounds in matched.trials.values()
        ]
        if sum(measured) >= 2:
            return metric
    return None


@dataclass(frozen=True, slots=True)
class Measured:
    """The times and accuracies of every arm, by complete round: what is paired again and again.

    `matched` has those rounds, and knows which of them were disturbed, or torn.
    """

    metric: str | None
    times: Mapping[Arm, ByRound]
    accuracies: Mapping[Arm, ByRound]
    matched: Matched


def measured(matched: Matched, metric: str | None) -> Measured:
    """Every arm's values of a time metric, and its `val_accuracy`."""

    def time_of(trial: TrialRecord) -> float | None:
        found = trial.metrics.get(metric) if metric else None
        return found if _positive(found) else None

    def accuracy_of(trial: TrialRecord) -> float | None:
        found = trial.metrics.get("val_accuracy")
        return found if found is not None and math.isfinite(found) else None

    arms = matched.trials.items()
    return Measured(
        metric,
        {arm: by_round(rounds, time_of, geometric) for arm, rounds in arms},
        {arm: by_round(rounds, accuracy_of, _arithmetic) for arm, rounds in arms},
        matched,
    )


def pair_up(found: Measured, arm: Arm, base: Arm) -> Paired:
    """The blocks' times and accuracies on both sides.

    Between arms that did unlike amounts of work, or one of which was timed in slices, only times
    per step are compared; accuracies only between whole trainings of equal work. Rounds in which
    neither side's timing was disturbed are enough where `MIN_BLOCKS` blocks have one, else all are
    taken. What a disturbance slows is no less accurate for it.
    """
    modes = {measure_of(arm), measure_of(base)}
    alike = work_of(arm) == work_of(base)
    comparable = (alike and len(modes) == 1) or found.metric in _WHATEVER_WORK
    torn = found.matched.torn((arm, base))
    noisy = found.matched.disturbed
    timed = timed_pairs(found.times, noisy, arm, base, torn.__contains__) if comparable else Timed()
    whole = alike and modes == {"full"}
    accuracies = pairs(found.accuracies, arm, base, _arithmetic) if whole else ()
    return Paired(timed.pairs, accuracies, timed.disturbed, timed.quiet_only, len(torn))


@dataclass(frozen=True, slots=True)
class Timed:
    """Pairs of what a disturbance changes; its fields are those of `Paired`."""

    pairs: tuple[Pair, ...] = ()
    disturbed: Mapping[int, str] = field(default_factory=dict)
    quiet_only: bool = True


def timed_pairs(
    values: Mapping[Arm, ByRound],
    reasons: Mapping[Arm, Mapping[Round, str]],
    arm: Arm,
    base: Arm,
    left_out: Callable[[Round], bool] = lambda _: False,
) -> Timed:
    """Pairs over quiet rounds where there are blocks enough with one, else over all but some."""
    noisy = {**reasons.get(base, {}), **reasons.get(arm, {})}
    every = pairs(values, arm, base, geometric, left_out)
    used = {pair.block for pair in every}
    disturbed = {r[0]: noisy[r] for r in sorted(noisy, reverse=True) if r[0] in used}
    if not disturbed:
        return Timed(every)
    quiet = pairs(values, arm, base, geometric, lambda r: r in noisy or left_out(r))
    if len(quiet) < MIN_BLOCKS:
        return Timed(every, disturbed, quiet_only=False)
    return Timed(quiet, disturbed)


def pairs(
    values: Mapping[Arm, ByRound],
    arm: Arm,
    base: Arm,
    mean: Callable[[Sequence[float]], float],
    left_out: Callable[[Round], bool] = lambda _: False,
) -> tuple[Pair, ...]:
    """The blocks in which both arms have a value, over the rounds in which both have it."""
    ours, theirs = values.get(arm, {}), values.get(base, {})
    blocks: dict[int, list[Round]] = defaultdict(list)
    for shared in sorted(ours.keys() & theirs.keys()):
        if not left_out(shared):
            blocks[shared[0]].append(shared)
    return tuple(
        Pair(block, mean([ours[r] for r in rounds]), mean([theirs[r] for r in rounds]), len(rounds))
        for block, rounds in blocks.items()
    )


def by_round(
    rounds: Mapping[Round, Sequence[T]],
    value_of: Callable[[T], float | None],
    mean: Callable[[Sequence[float]], float],
) -> dict[Round, float]:
    """The mean of each round's values (as a rule there is one), where it has any."""
    values = (
        (r, [value for each in found if (value := value_of(each)) is not None])
        for r, found in rounds.items()
    )
    return {r: mean(found) for r, found in values if found}


def geometric(values: Sequence[float]) -> float:
    """The geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _arithmetic(values: Sequence[float]) -> float:
    if len(values) == 1:
        return values[0]
    return math.fsum(values) / len(values)


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
