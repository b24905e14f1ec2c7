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
from orchestrator.core.trial import Arm

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
class OfRound:
    """An arm's value in one round, and the ids of the runs that have it."""

    value: float
    runs: tuple[str, ...]


ByRound = Mapping[Round, OfRound]
"""One value for each of an arm's complete rounds that has it."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Pairs of what a disturbance changes.

    `disturbed` says for each block in which a side's timing was disturbed by what; `quiet_only`
    that such rounds are left out of `pairs`; `disturbance_reason` why the pairs tell nothing
    although there are enough of them, and is empty as a rule.
    """

    pairs: tuple[Pair, ...] = ()
    disturbed: Mapping[int, Disturbance] = field(default_factory=dict)
    quiet_only: bool = True
    disturbance_reason: str | None = None

    @property
    def telling(self) -> tuple[Pair, ...]:
        """The pairs that a verdict may be read from: none where there is doubt."""
        return () if self.disturbance_reason else self.pairs


def timed_pairs(
    values: Mapping[Arm, ByRound],
    reasons: Mapping[Arm, Mapping[Round, Disturbance]],
    arm: Arm,
    base: Arm,
    left_out: Callable[[Round], bool] = lambda _: False,
) -> Timed:
    """Pairs over quiet rounds where there are blocks enough with one, else over all but some."""
    noisy = {**reasons.get(base, {}), **reasons.get(arm, {})}
    every = pairs(values, arm, base, geometric, left_out)
    shared = values.get(arm, {}).keys() & values.get(base, {}).keys()
    compared = sorted((r for r in shared & noisy.keys() if not left_out(r)), reverse=True)
    disturbed = {r[0]: noisy[r] for r in compared}
    if not disturbed:
        return Timed(every)
    quiet = pairs(values, arm, base, geometric, lambda r: r in noisy or left_out(r))
    if len(quiet) >= MIN_BLOCKS:
        return Timed(quiet, disturbed)
    why = disturbance_reason(len(every), len(quiet), len(disturbed))
    return Timed(every, disturbed, quiet_only=False, disturbance_reason=why)


def pairs(
    values: Mapping[Arm, ByRound],
    arm: Arm,
    base: Arm,
    mean: Mean,
    left_out: Callable[[Round], bool] = lambda _: False,
) -> tuple[Pair, ...]:
    """The blocks in which both arms have a value, over the rounds in which both have it."""
    ours, theirs = values.get(arm, {}), values.get(base, {})
    blocks: dict[int, list[Round]] = defaultdict(list)
    for shared in sorted(ours.keys() & theirs.keys()):
        if not left_out(shared):
            blocks[shared[0]].append(shared)
    return tuple(
        _pair(block, [ours[r] for r in rounds], [theirs[r] for r in rounds], mean)
        for block, rounds in blocks.items()
    )


def _pair(block: int, ours: Sequence[OfRound], theirs: Sequence[OfRound], mean: Mean) -> Pair:
    (arm, arm_runs), (base, base_runs) = (
        (mean([each.value for each in side]), tuple(run for each in side for run in each.runs))
        for side in (ours, theirs)
    )
    return Pair(block, arm, base, len(ours), arm_runs, base_runs)


def by_round(
    rounds: Mapping[Round, Sequence[T]],
    value_of: Callable[[T], float | None],
    run_of: Callable[[T], str],
    mean: Mean,
) -> dict[Round, OfRound]:
    """The mean of each round's values (as a rule there is one), where it has any."""
    found = {}
    for each, trials in rounds.items():
        told = [(value, run_of(t)) for t in trials if (value := value_of(t)) is not None]
        if told:
            mine = [value for value, _ in told]
            found[each] = OfRound(mean(mine), tuple(run for _, run in told))
    return found


def geometric(values: Sequence[float]) -> float:
    """The geometric mean of positive values; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def arithmetic(values: Sequence[float]) -> float:
    """The mean; of one, itself."""
    if len(values) == 1:
        return values[0]
    return math.fsum(values) / len(values)
