"""Two arms side by side: their times and accuracies, paired block by block."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

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

ValueOf = Callable[[TrialRecord], float | None]
"""What is paired: a number of a trial, or None where it has none."""

_WHATEVER_WORK = ("step_ms",)
"""Of the times that speed is told by, those that do not grow with the amount of work."""


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
    side's timing was disturbed by what; `quiet_only` that such rounds are left out of `times`.
    """

    times: tuple[Pair, ...]
    accuracies: tuple[Pair, ...]
    disturbed: Mapping[int, str]
    quiet_only: bool

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


def pair_up(matched: Matched, arm: Arm, base: Arm, metric: str | None) -> Paired:
    """The blocks' times and accuracies on both sides.

    Between arms that did unlike amounts of work, or one of which was timed in slices, only times
    per step are compared; accuracies only between whole trainings of equal work. Rounds in which
    neither side's timing was disturbed are enough where `MIN_BLOCKS` blocks have one, else all are
    taken. What a disturbance slows is no less accurate for it.
    """
    modes = {measure_of(arm), measure_of(base)}
    alike = work_of(arm) == work_of(base)
    whole = alike and modes == {"full"}
    comparable = (alike and len(modes) == 1) or metric in _WHATEVER_WORK
    times: tuple[Pair, ...] = ()
    disturbed: dict[int, str] = {}
    quiet_only = True
    if metric is not None and comparable:
        times, disturbed, quiet_only = timed_pairs(matched, arm, base, _positive_metric(metric))
    accuracies = pairs(matched, arm, base, _accuracy, _arithmetic) if whole else ()
    return Paired(times, accuracies, disturbed, quiet_only)


def timed_pairs(
    matched: Matched, arm: Arm, base: Arm, value_of: ValueOf, but: Container[int] = ()
) -> tuple[tuple[Pair, ...], dict[int, str], bool]:
    """Pairs of what a disturbance changes, in all blocks but some.

    Returns:
        The pairs; the disturbed blocks, each with the first reason; whether the pairs are over
        quiet rounds only.
    """
    reasons = {**matched.disturbed.get(base, {}), **matched.disturbed.get(arm, {})}
    every = pairs(matched, arm, base, value_of, geometric, lambda r: r[0] in but)
    used = {pair.block for pair in every}
    disturbed = {r[0]: reasons[r] for r in sorted(reasons, reverse=True) if r[0] in used}
    if not disturbed:
        return every, {}, True
    quiet = pairs(matched, arm, base, value_of, geometric, lambda r: r[0] in but or r in reasons)
    if len(quiet) < MIN_BLOCKS:
        return every, disturbed, False
    return quiet, disturbed, True


def pairs(
    matched: Matched,
    arm: Arm,
    base: Arm,
    value_of: ValueOf,
    mean: Callable[[Sequence[float]], float],
    left_out: Callable[[Round], bool] = lambda _: False,
) -> tuple[Pair, ...]:
    """The blocks in which both arms have the value, over the rounds in which both have it."""
    ours, theirs = (_by_round(matched.trials.get(side, {}), value_of, mean) for side in (arm, base))
    blocks: dict[int, list[Round]] = defaultdict(list)
    for shared in sorted(ours.keys() & theirs.keys()):
        if not left_out(shared):
            blocks[shared[0]].append(shared)
    return tuple(
        Pair(block, mean([ours[r] for r in rounds]), mean([theirs[r] for r in rounds]), len(rounds))
        for block, rounds in blocks.items()
    )


def _by_round(
    rounds: Mapping[Round, Sequence[TrialRecord]],
    value_of: ValueOf,
    mean: Callable[[Sequence[float]], float],
) -> dict[Round, float]:
    values = {
        r: [value for value in map(value_of, trials) if value is not None]
        for r, trials in rounds.items()
    }
    return {r: mean(found) for r, found in values.items() if found}


def geometric(values: Sequence[float]) -> float:
    """The geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _arithmetic(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _positive_metric(metric: str) -> ValueOf:
    def value_of(trial: TrialRecord) -> float | None:
        found = trial.metrics.get(metric)
        return found if _positive(found) else None

    return value_of


def _accuracy(trial: TrialRecord) -> float | None:
    found = trial.metrics.get("val_accuracy")
    return found if found is not None and math.isfinite(found) else None


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
