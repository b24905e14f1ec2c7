"""What statistics over turns say of ratios beside other work, against the quiet ratios.

All figures are natural logarithms of ratios of the base arm's time to another arm's.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, median, stdev

import numpy as np

from infra.benchmarks.turns.measuring import BASE, LOADS, QUIET, SLICE_S, Group, Round
from infra.benchmarks.turns.statistics import STATISTICS, Times

LENGTHS_S = (SLICE_S, 0.05, 0.1, 0.25)
"""The lengths of turns, on the quiet machine; no turn is shorter than a pass over the data."""

NUMBERS = (8, 16, 32, 48)
"""How many turns a block may have."""

LEAST = 8
"""No more turns are set aside if only this number is left."""

LIMIT_PCT = 15.0
"""Turns in which others took more of the CPUs may be set aside."""

_STEP_S = 0.03  # of the observation, as in OthersMeter.is_disturbed
_WINDOWS = 8
_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a group beside one load: each arm's milliseconds per step, in their order."""

    step_ms: Mapping[str, Times]
    excess: Times
    """By how much what others took exceeds the limit, as a share of the CPUs; by turn."""

    def __len__(self) -> int:
        return len(self.excess)

    def chosen(self, places: Sequence[int]) -> "Turns":
        """Return these turns alone."""
        step_ms = {arm: times[list(places)] for arm, times in self.step_ms.items()}
        return Turns(step_ms, self.excess[list(places)])

    def without_disturbed(self) -> "Turns":
        """Set turns aside in which others took too much, the worst first, until `LEAST` are left.

        What was observed decides, never how long a turn took.
        """
        worst_first = np.argsort(-self.excess, kind="stable")
        most = max(0, len(self) - LEAST)
        aside = {int(place) for place in worst_first[:most] if self.excess[place] > 0}
        return self.chosen([place for place in range(len(self)) if place not in aside])

    def log_ratio(self, statistic: str, arm: str) -> float:
        """Return the logarithm of the base arm's time by the other's."""
        of = STATISTICS[statistic]
        return math.log(float(of(self.step_ms[BASE])) / float(of(self.step_ms[arm])))


def excess(measured: Round) -> float:
    """Return by how much others exceeded the limit in a round; -1 if nobody knows."""
    if measured.taken_s is None or not measured.total_s:
        return -1.0
    return (measured.taken_s - _STEP_S) / measured.total_s - LIMIT_PCT / 100


def turns_of(group: Group, load: str, length_s: float, *, quiet_only: bool = False) -> Turns:
    """Return the turns of a group beside a load; on request those without a disturbed round."""
    rounds = [
        measured
        for cell in group.cells
        if cell.load == load
        for measured in cell.rounds
        if not quiet_only or excess(measured) <= 0
    ]
    by_round = [_turns_of_round(group, measured, length_s) for measured in rounds]
    step_ms = {arm: np.array([ms for turns in by_round for ms in turns[arm]]) for arm in group.arms}
    over = [
        excess(measured)
        for measured, turns in zip(rounds, by_round, strict=True)
        for _ in turns[BASE]
    ]
    return Turns(step_ms, np.array(over))


def _turns_of_round(group: Group, measured: Round, length_s: float) -> dict[str, list[float]]:
    """Return each arm's milliseconds per step by turn: of each arm equally many turns.

    A part of the round that ended early makes at least one turn, which is shorter.
    """
    by_arm = {}
    for arm, slices in measured.slices.items():
        size = max(1, round(length_s / group.slice_s[arm]))
        turns = [slices[start : start + size] for start in range(0, len(slices), size)]
        by_arm[arm] = [
            1_000 * sum(seconds for _, seconds in turn) / sum(steps for steps, _ in turn)
            for place, turn in enumerate(turns)
            if len(turn) == size or not place
        ]
    fewest = min(map(len, by_arm.values()))
    return {arm: turns[:fewest] for arm, turns in by_arm.items()}


def windows(turns: Turns, number: int) -> Iterator[Turns]:
    """Yield some stretches of so many turns, which don't overlap."""
    count = min(_WINDOWS, len(turns) // number)
    for place in range(count):
        start = (
            round(place * (len(turns) - number) / (count - 1))
            if count > 1
            else (len(turns) - number) // 2
        )
        yield turns.chosen(range(start, start + number))


@dataclass(frozen=True, slots=True)
class Error:
    """The errors of a statistic in one group, arm and load, by window."""

    length_s: float
    turns: int
    statistic: str
    load: str
    arm: str
    units: int
    repeat: int
    quiet: float
    """The statistic's own quiet value."""
    quiet_median: float
    """The median's quiet value."""
    found: Sequence[float]
    found_without_disturbed: Sequence[float]

    def errors(self) -> list[float]:
        """Return the errors against the statistic's own quiet value."""
        return [value - self.quiet for value in self.found]

    def errors_to_median(self) -> list[float]:
        """Return the errors against the median's quiet value."""
        return [value - self.quiet_median for value in self.found]

    def errors_without_disturbed(self) -> list[float]:
        """Return the errors if disturbed turns are set aside."""
        return [value - self.quiet for value in self.found_without_disturbed]


@dataclass(frozen=True, slots=True)
class Width:
    """How a statistic varies on the quiet machine: a standard deviation; NaN if unknown."""

    length_s: float
    turns: int
    statistic: str
    within: float
    """Over random samples of turns of the same processes."""
    across: float
    """Over processes, of all their quiet turns."""

    @property
    def total(self) -> float:
        """Over blocks of fresh processes."""
        return math.hypot(self.within, self.across)


def errors(groups: Sequence[Group]) -> list[Error]:
    """Return the errors of every statistic, number of turns, length of turn, load, arm, group."""
    found = list[Error]()
    for group in groups:
        for length_s in LENGTHS_S:
            quiet = turns_of(group, QUIET.name, length_s, quiet_only=True)
            beside = {load.name: turns_of(group, load.name, length_s) for load in LOADS}
            for number in NUMBERS:
                still = list(windows(quiet, number))
                parts = {name: list(windows(turns, number)) for name, turns in beside.items()}
                if still:
                    found += _errors_of_group(group, length_s, number, still, parts)
    return found


def _errors_of_group(
    group: Group,
    length_s: float,
    number: int,
    still: Sequence[Turns],
    parts: Mapping[str, Sequence[Turns]],
) -> Iterator[Error]:
    for arm in group.arms:
        if arm == BASE:
            continue
        truths = {
            statistic: fmean(window.log_ratio(statistic, arm) for window in still)
            for statistic in STATISTICS
        }
        for load, of_load in parts.items():
            kept = [window.without_disturbed() for window in of_load]
            for statistic, truth in truths.items():
                yield Error(
                    length_s,
                    number,
                    statistic,
                    load,
                    arm,
                    group.units,
                    group.repeat,
                    truth,
                    truths["median"],
                    [window.log_ratio(statistic, arm) for window in of_load],
                    [window.log_ratio(statistic, arm) for window in kept],
                )


def widths(groups: Sequence[Group]) -> list[Width]:
    """Return the width of every statistic, number of turns and length of turn."""
    found = []
    for length_s in LENGTHS_S:
        quiet = [
            (group, turns_of(group, QUIET.name, length_s, quiet_only=True)) for group in groups
        ]
        for number in NUMBERS:
            within = _within([turns for _, turns in quiet], number)
            for statistic in STATISTICS:
                found.append(
                    Width(
                        length_s,
                        number,
                        statistic,
                        within.get(statistic, math.nan),
                        _across(quiet, number, statistic),
                    )
                )
    return found


def _within(quiet: Sequence[Turns], number: int) -> dict[str, float]:
    """Return each statistic's deviation over samples, by root mean square over groups and arms.

    Only groups with twice as many turns count: samples of nearly all turns hardly differ.
    """
    draw = random.Random(0)
    variances: dict[str, list[float]] = {statistic: [] for statistic in STATISTICS}
    for turns in quiet:
        if len(turns) < 2 * number:
            continue
        samples = [draw.sample(range(len(turns)), number) for _ in range(_SAMPLES)]
        for statistic, of in STATISTICS.items():
            logs = {arm: np.log(of(times[samples])) for arm, times in turns.step_ms.items()}
            variances[statistic] += [
                float(np.var(logs[BASE] - log, ddof=1)) for arm, log in logs.items() if arm != BASE
            ]
    return {name: math.sqrt(fmean(values)) for name, values in variances.items() if values}


def _across(quiet: Sequence[tuple[Group, Turns]], number: int, statistic: str) -> float:
    """Return the deviation of the quiet values of fresh processes, pooled over sizes and arms."""
    values: dict[tuple[int, str], list[float]] = {}
    for group, turns in quiet:
        parts = list(windows(turns, number))
        for arm in group.arms:
            if parts and arm != BASE:
                value = fmean(part.log_ratio(statistic, arm) for part in parts)
                values.setdefault((group.units, arm), []).append(value)
    deviations = [(stdev(own), len(own) - 1) for own in values.values() if len(own) > 1]
    if not deviations:
        return math.nan
    freedom = sum(number for _, number in deviations)
    return math.sqrt(sum(number * deviation**2 for deviation, number in deviations) / freedom)


def typical(values: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Return the median and the largest of the absolute values; None if there are none."""
    sizes = [abs(value) for value in chain.from_iterable(values)]
    return (median(sizes), max(sizes)) if sizes else None
