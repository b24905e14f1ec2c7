"""Two arms' values of one metric, paired block by block, each pair with the runs behind it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from orchestrator.analysis.pairing.complete_rounds import Disturbance, Round
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS
from orchestrator.analysis.statistics.quiet_blocks import disturbance_reason
from orchestrator.core.arms import Arm

T = TypeVar("T")

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
class TimedPairs:
    """The pairs of a metric that a disturbance changes.

    `disturbed` has the disturbance of each disturbed block. With `quiet_only` the pairs are over
    undisturbed rounds alone. `disturbance_reason` is the reason why the pairs permit no verdict
    although there are enough.
    """

    pairs: tuple[Pair, ...] = ()
    disturbed: Mapping[int, Disturbance] = field(default_factory=dict)
    quiet_only: bool = True
    disturbance_reason: str | None = None

    @property
    def verdict_pairs(self) -> tuple[Pair, ...]:
        """The pairs for a verdict: none if too many blocks were disturbed."""
        return () if self.disturbance_reason else self.pairs


def timed_pairs(
    values: Mapping[Arm, RoundValues],
    disturbances: Mapping[Arm, Mapping[Round, Disturbance]],
    arm: Arm,
    base: Arm,
    is_excluded: Callable[[Round], bool] = lambda _: False,
) -> TimedPairs:
    """Return the pairs over quiet rounds if enough blocks have one, else over all rounds.

    Args:
        values: the values of all arms.
        disturbances: the disturbed rounds of all arms.
        arm: one side.
        base: the other side.
        is_excluded: selects rounds to leave out in either case.
    """
    noisy = {**disturbances.get(base, {}), **disturbances.get(arm, {})}
    every = pairs(values, arm, base, geometric, is_excluded)
    shared = values.get(arm, {}).keys() & values.get(base, {}).keys()
    compared = sorted((r for r in shared & noisy.keys() if not is_excluded(r)), reverse=True)
    disturbed = {r[0]: noisy[r] for r in compared}
    if not disturbed:
        return TimedPairs(every)
    quiet = pairs(values, arm, base, geometric, lambda r: r in noisy or is_excluded(r))
    if len(quiet) >= MIN_BLOCKS:
        return TimedPairs(quiet, disturbed)
    reason = disturbance_reason(len(every), len(quiet), len(disturbed))
    return TimedPairs(every, disturbed, quiet_only=False, disturbance_reason=reason)


def pairs(
    values: Mapping[Arm, RoundValues],
    arm: Arm,
    base: Arm,
    mean: Mean,
    is_excluded: Callable[[Round], bool] = lambda _: False,
) -> tuple[Pair, ...]:
    """Pair the blocks in which both arms have a value, over the rounds in which both have it."""
    ours, theirs = values.get(arm, {}), values.get(base, {})
    blocks: dict[int, list[Round]] = defaultdict(list)
    for shared in sorted(ours.keys() & theirs.keys()):
        if not is_excluded(shared):
            blocks[shared[0]].append(shared)
    return tuple(
        _pair(block, [ours[r] for r in rounds], [theirs[r] for r in rounds], mean)
        for block, rounds in blocks.items()
    )


def _pair(block: int, ours: Sequence[RoundValue], theirs: Sequence[RoundValue], mean: Mean) -> Pair:
    (arm, arm_runs), (base, base_runs) = (
        (mean([item.value for item in side]), tuple(run for item in side for run in item.runs))
        for side in (ours, theirs)
    )
    return Pair(block, arm, base, len(ours), arm_runs, base_runs)


def round_values(
    rounds: Mapping[Round, Sequence[T]],
    value_of: Callable[[T], float | None],
    run_of: Callable[[T], str],
    mean: Mean,
) -> dict[Round, RoundValue]:
    """Return the mean of the values of each round that has any, normally one."""
    means = {}
    for place, trials in rounds.items():
        values = [
            (value, run_of(trial)) for trial in trials if (value := value_of(trial)) is not None
        ]
        if values:
            run_ids = tuple(run for _, run in values)
            means[place] = RoundValue(mean([value for value, _ in values]), run_ids)
    return means


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def arithmetic(values: Sequence[float]) -> float:
    """Return the mean; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.fsum(values) / len(values)
