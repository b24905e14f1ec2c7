"""Two arms' times and accuracies, paired block by block, each pair with the runs behind it.

A disturbance affects implementations unequally (with one busy core, one framework takes 1.8 times
as long, another is not slower at all). So times are over quiet rounds if enough blocks have one,
and over all rounds otherwise. Then they permit a verdict only if few blocks are disturbed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from orchestrator.analysis.measures import TIMES
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, Disturbance, Round
from orchestrator.analysis.statistics.estimates import (
    CONFIDENCE,
    MIN_BLOCKS,
    Estimate,
    exponential,
    t_interval,
)
from orchestrator.analysis.statistics.formatting import count
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial

_ONE_IN = 3
"""One block in this many may be disturbed if all blocks have to count."""
_PER_STEP = ("step_ms",)
"""The time metrics that do not grow with the amount of work."""

Mean = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Pair:
    """One block's values of one metric on both sides, each the mean over its shared rounds.

    Times have their geometric mean: the block's ratio is then that of its rounds, each of which is
    a pair by itself, and a round that was slow on both sides weighs no more than the others.
    Accuracies have their arithmetic mean. `arm_runs` and `baseline_runs` are the ids of the runs
    that the two values are made from.
    """

    block: int
    arm: float
    baseline: float
    rounds: int
    arm_runs: tuple[str, ...]
    baseline_runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoundValue:
    """An arm's value in one round, and the ids of the runs that have it."""

    value: float
    runs: tuple[str, ...]


RoundValues = Mapping[Round, RoundValue]
"""One value for each of an arm's complete rounds that has it."""


@dataclass(frozen=True, slots=True)
class RoundSelection:
    """The rounds over which times are compared: quiet ones if enough blocks have one, else all.

    `disturbed` has the disturbance of each disturbed block. `reason` is the reason why the rounds
    permit no verdict although there are enough blocks.
    """

    rounds: tuple[Round, ...] = ()
    disturbed: Mapping[int, Disturbance] = field(default_factory=dict)
    quiet_only: bool = True
    reason: str | None = None

    @property
    def by_block(self) -> dict[int, list[Round]]:
        """The rounds of each block."""
        blocks: dict[int, list[Round]] = defaultdict(list)
        for place in self.rounds:
            blocks[place[0]].append(place)
        return blocks


def select_rounds(
    rounds: Iterable[Round], disturbances: Iterable[Mapping[Round, Disturbance]]
) -> RoundSelection:
    """Select rounds of some arms, given the disturbed rounds of each of these arms."""
    every = sorted(rounds)
    noisy = {place: causes for own in disturbances for place, causes in own.items()}
    disturbed = {place[0]: noisy[place] for place in reversed(every) if place in noisy}
    quiet = [place for place in every if place not in noisy]
    used, undisturbed = (len({block for block, _ in places}) for places in (every, quiet))
    if not disturbed or undisturbed >= MIN_BLOCKS:
        return RoundSelection(tuple(quiet), disturbed)
    reason = None
    if used >= MIN_BLOCKS and _ONE_IN * len(disturbed) > used:
        reason = (
            f"{undisturbed} of {count(used, 'block')} were quiet, and {MIN_BLOCKS} are needed "
            "where more than a third are disturbed: run more blocks (blocks: auto), or use a "
            "quieter node"
        )
    return RoundSelection(tuple(every), disturbed, quiet_only=False, reason=reason)


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """The pairs of blocks of two arms by a time, over selected rounds."""

    pairs: tuple[Pair, ...] = ()
    selection: RoundSelection = field(default_factory=RoundSelection)

    @property
    def log_ratios(self) -> list[float]:
        """The logarithm of the baseline's time over the arm's, for each block."""
        return [math.log(pair.baseline) - math.log(pair.arm) for pair in self.pairs]

    @property
    def verdict_log_ratios(self) -> list[float]:
        """The log-ratios for a verdict: none if too many blocks were disturbed."""
        return [] if self.selection.reason else self.log_ratios

    def ratio(self, confidence: float = CONFIDENCE) -> Estimate | None:
        """Return the geometric mean ratio of times; None for fewer than two blocks."""
        logs = t_interval(self.log_ratios, confidence)
        return exponential(logs) if logs else None


def pair_times(
    ours: RoundValues, theirs: RoundValues, disturbances: Iterable[Mapping[Round, Disturbance]]
) -> PairedTimes:
    """Pair the times of two arms over the rounds that both have."""
    selection = select_rounds(ours.keys() & theirs.keys(), disturbances)
    return PairedTimes(_pairs(ours, theirs, selection, geometric), selection)


def _pairs(
    ours: RoundValues, theirs: RoundValues, selection: RoundSelection, mean: Mean
) -> tuple[Pair, ...]:
    pairs = []
    for block, rounds in selection.by_block.items():
        sides = [[values[place] for place in rounds] for values in (ours, theirs)]
        (arm, base), (arm_runs, base_runs) = (
            [mean([item.value for item in side]) for side in sides],
            [tuple(run for item in side for run in item.runs) for side in sides],
        )
        pairs.append(Pair(block, arm, base, len(rounds), arm_runs, base_runs))
    return tuple(pairs)


def round_values(
    rounds: Mapping[Round, Sequence[FinishedTrial]],
    value_of: Callable[[FinishedTrial], float | None],
    mean: Mean,
) -> dict[Round, RoundValue]:
    """Return the mean of the values of each round that has any, normally one."""
    means = {}
    for place, trials in rounds.items():
        values = [(value, t.run_id) for t in trials if (value := value_of(t)) is not None]
        if values:
            numbers, run_ids = zip(*values, strict=True)
            means[place] = RoundValue(mean(numbers), run_ids)
    return means


@dataclass(frozen=True, slots=True)
class PairedArms:
    """The pairs of blocks of two arms: their times and their accuracies.

    `not_interleaved` counts the rounds excluded from the times because the arms should have been
    interleaved and were not.
    """

    times: PairedTimes
    accuracies: tuple[Pair, ...]
    not_interleaved: int

    @property
    def differences(self) -> list[float]:
        """The arm's accuracy minus the baseline's, for each block."""
        return [pair.arm - pair.baseline for pair in self.accuracies]

    @property
    def difference(self) -> Estimate | None:
        """The mean difference of accuracies; None for fewer than two blocks."""
        return t_interval(self.differences)


@dataclass(frozen=True, slots=True)
class ArmValues:
    """The times and accuracies of every arm, by complete round; `metric` is that of the times."""

    metric: str | None
    times: Mapping[Arm, RoundValues]
    accuracies: Mapping[Arm, RoundValues]
    rounds: CompleteRounds

    def pair(self, arm: Arm, base: Arm) -> PairedArms:
        """Pair the blocks' times and accuracies of two arms.

        Between arms with different amounts of work, or different measuring modes, only times per
        step are compared. Accuracies are compared only between whole trainings of equal work, over
        all rounds, since a disturbance does not change them.
        """
        modes = {arm.measure, base.measure}
        is_equal_work = arm.work == base.work
        excluded = self.rounds.not_interleaved((arm, base))
        times, accuracies = PairedTimes(), tuple[Pair, ...]()
        if (is_equal_work and len(modes) == 1) or self.metric in _PER_STEP:
            ours, theirs = (_without(self.times.get(side, {}), excluded) for side in (arm, base))
            disturbances = self.rounds.disturbances
            times = pair_times(ours, theirs, [disturbances.get(side, {}) for side in (base, arm)])
        if is_equal_work and modes == {"full"}:
            ours, theirs = (self.accuracies.get(side, {}) for side in (arm, base))
            shared = RoundSelection(tuple(sorted(ours.keys() & theirs.keys())))
            accuracies = _pairs(ours, theirs, shared, fmean)
        return PairedArms(times, accuracies, len(excluded))


def _without(values: RoundValues, excluded: Collection[Round]) -> RoundValues:
    return {place: value for place, value in values.items() if place not in excluded}


def arm_values(matched: CompleteRounds, metric: str | None = None) -> ArmValues:
    """Return every arm's values of a metric (by default a time), and of `val_accuracy`."""
    metric = metric or time_metric(matched)

    def accuracy_of(trial: FinishedTrial) -> float | None:
        value = trial.metrics.get("val_accuracy")
        return value if value is not None and math.isfinite(value) else None

    arms = matched.trials.items()
    return ArmValues(
        metric,
        {
            arm: round_values(rounds, lambda trial: _positive(trial, metric), geometric)
            for arm, rounds in arms
        }
        if metric
        else {},
        {arm: round_values(rounds, accuracy_of, fmean) for arm, rounds in arms},
        matched,
    )


def time_metric(matched: CompleteRounds) -> str | None:
    """Return the metric of speed-ups: the first of `TIMES` that at least two arms measured.

    The arms of a block share the batch size, so that ratios of `step_ms` are ratios per sample.
    """
    for metric in TIMES:
        are_measured = [
            any(_positive(t, metric) for trials in rounds.values() for t in trials)
            for rounds in matched.trials.values()
        ]
        if sum(are_measured) >= 2:
            return metric
    return None


def _positive(trial: FinishedTrial, metric: str | None) -> float | None:
    value = trial.metrics.get(metric, 0.0) if metric else 0.0
    return value if math.isfinite(value) and value > 0 else None


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))
