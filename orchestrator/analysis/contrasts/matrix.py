"""The matrix of a metric: what each arm measured in each block that counts.

It alone chooses the blocks. A block counts if it is complete on every arm that measured the metric.
Times count over quiet blocks if at least `MIN_BLOCKS` are quiet on all arms, else over all blocks.
Results do not depend on other processes, so all blocks count for them.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestrator.analysis.contrasts.contrast import Scale, Unit
from orchestrator.analysis.measures import Measure, scopes_of, value_of
from orchestrator.analysis.pairing.complete_rounds import (
    CompleteRounds,
    Round,
    disturbance_of,
    typical_disturbance,
)
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS
from orchestrator.core.arms import Arm
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial
from workloads.metrics import WITH_ENERGY_SCOPE, find_metric

MatrixRow: TypeAlias = tuple[int, int | None]
"""A block; with its repeat where the rows are repeats of the only config."""


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The values of a metric: a row for each block that counts, a column for each arm.

    `values` are logarithms on the scale of a ratio. Repeats of a block are averaged first. A sweep
    of one config with at least `MIN_BLOCKS` repeats has a row for each repeat (`unit`).
    `disturbances` has what disturbed a cell; a quiet one has no entry. `scopes` are the devices
    that an arm's energy is of; empty for another metric.
    """

    metric: str
    scale: Scale
    direction: Direction
    unit: Unit
    arms: tuple[Arm, ...]
    rows: tuple[MatrixRow, ...]
    values: NDArray[np.float64]
    disturbances: Mapping[tuple[MatrixRow, Arm], Disturbance]
    scopes: Mapping[Arm, frozenset[str]]

    def mean(self, arm: Arm) -> float:
        """Return an arm's mean over the rows: geometric for a ratio, else arithmetic."""
        mean = float(self.values[:, self.arms.index(arm)].mean())
        return math.exp(mean) if self.scale == Scale.RATIO else mean

    def column(self, arm: Arm, rows: Collection[MatrixRow]) -> NDArray[np.float64]:
        """Return an arm's values in some of the rows, in the metric's own unit."""
        of_arm = self.values[[row in rows for row in self.rows], self.arms.index(arm)]
        return np.exp(of_arm) if self.scale == Scale.RATIO else of_arm

    def combined(self, weights: Mapping[Arm, float]) -> list[float]:
        """Return the sum of the arms' values with these weights, for each row."""
        columns = [self.arms.index(arm) for arm in weights]
        return (self.values[:, columns] @ np.array([*weights.values()])).tolist()

    def disturbed_rows(self, arms: Iterable[Arm]) -> list[MatrixRow]:
        """Return the rows in which one of these arms was disturbed."""
        wanted = set(arms)
        disturbed = {row for row, arm in self.disturbances if arm in wanted}
        return [row for row in self.rows if row in disturbed]

    def disturbance(self, arms: Iterable[Arm]) -> Disturbance:
        """Return the causes for which cells of these arms were disturbed, with their medians."""
        wanted = set(arms)
        return typical_disturbance(
            disturbance for (_, arm), disturbance in self.disturbances.items() if arm in wanted
        )


def build_matrix(
    rounds: CompleteRounds, measure: Measure, direction: Direction = "minimize"
) -> Matrix:
    """Return the matrix of a measure over complete rounds; it may have no rows.

    A result of training is compared by differences, everything else by ratios of positive values.
    Arms without the metric have no column, and neither have arms of an earlier start that lack some
    of the rounds, if two others have all. Energies of several or unknown devices are not compared.
    Trials count as `Measure.counts` has it; where trainers are to be alike, so do rounds in which
    either all or none of these arms had a fresh one.
    """
    metric = find_metric(measure.metric)
    scale = Scale.DIFFERENCE if metric.is_result else Scale.RATIO
    by_arm = {
        arm: values
        for arm in rounds.trials
        if _can_have(arm, measure.metric)
        and _has_one_scope(_scopes(rounds, arm, measure.metric))
        and (values := _values(rounds, arm, measure, scale))
    }
    whole = [arm for arm in by_arm if len(rounds.trials[arm]) == len(rounds.rounds)]
    arms = whole if len(whole) > 1 else [*by_arm]
    shared = set[Round].intersection(*(set(by_arm[arm]) for arm in arms)) if arms else set()
    if scale == Scale.RATIO:
        shared -= rounds.not_interleaved(arms)
    if measure.trainer == "alike":
        shared = {round_key for round_key in shared if _has_alike_trainers(rounds, arms, round_key)}
    unit = unit_of(shared)
    disturbed = {} if scale == Scale.DIFFERENCE else _disturbances(rounds, arms, shared)
    counted = _quiet_rounds(shared, disturbed, unit)
    rows: dict[MatrixRow, list[Round]] = defaultdict(list)
    for round_key in sorted(counted):
        rows[_row_of(round_key, unit)].append(round_key)
    cells: dict[tuple[MatrixRow, Arm], list[Disturbance]] = defaultdict(list)
    for (round_key, arm), disturbance in disturbed.items():
        if round_key in counted:
            cells[_row_of(round_key, unit), arm].append(disturbance)
    means = [
        [
            math.fsum(by_arm[arm][round_key] for round_key in round_keys) / len(round_keys)
            for arm in arms
        ]
        for round_keys in rows.values()
    ]
    return Matrix(
        metric=measure.metric,
        scale=scale,
        direction=direction,
        unit=unit,
        arms=tuple(arms),
        rows=tuple(rows),
        values=np.array(means, dtype=np.float64).reshape(len(rows), len(arms)),
        disturbances={cell: typical_disturbance(each) for cell, each in cells.items()},
        scopes={arm: _scopes(rounds, arm, measure.metric) for arm in arms},
    )


def unit_of(rounds: Collection[Round]) -> Unit:
    """Return `repeat` for enough repeats of one config, whose interval is about that config."""
    is_one_config = len({block for block, _ in rounds}) == 1
    return Unit.REPEAT if is_one_config and len(rounds) >= MIN_BLOCKS else Unit.CONFIG


def _row_of(round_key: Round, unit: Unit) -> MatrixRow:
    block, repeat = round_key
    return block, repeat if unit == Unit.REPEAT else None


def _has_alike_trainers(rounds: CompleteRounds, arms: Sequence[Arm], round_key: Round) -> bool:
    trials = (trial for arm in arms for trial in rounds.trials[arm][round_key])
    return len({trial.trainer_trials == 0 for trial in trials}) == 1


def _can_have(arm: Arm, metric: str) -> bool:
    """Return False for what cannot be compared: results without a training, memory of a host."""
    if metric == "peak_rss_mib":
        return arm.device != "gpu"
    return arm.measure == "full" or not find_metric(metric).is_result


def _values(rounds: CompleteRounds, arm: Arm, measure: Measure, scale: Scale) -> dict[Round, float]:
    """Return an arm's value in each round that has one: the mean over its trials."""
    values = dict[Round, float]()
    for round_key, trials in rounds.trials[arm].items():
        numbers = [
            math.log(value) if scale == Scale.RATIO else value
            for trial in trials
            if measure.counts(trial) and (value := value_of(trial, measure.metric)) is not None
            if scale == Scale.DIFFERENCE or value > 0
        ]
        if numbers:
            values[round_key] = math.fsum(numbers) / len(numbers)
    return values


def _scopes(rounds: CompleteRounds, arm: Arm, metric: str) -> frozenset[str]:
    if metric not in WITH_ENERGY_SCOPE:
        return frozenset()
    return scopes_of(rounds.all_trials(arm), (metric,))


def _has_one_scope(scopes: frozenset[str]) -> bool:
    return len(scopes) <= 1 and "" not in scopes


def _disturbances(
    rounds: CompleteRounds, arms: Sequence[Arm], shared: Collection[Round]
) -> dict[tuple[Round, Arm], Disturbance]:
    """Return what disturbed the trials of these arms in these rounds."""
    disturbed = dict[tuple[Round, Arm], Disturbance]()
    for arm in arms:
        for round_key in shared:
            trials: Sequence[FinishedTrial] = rounds.trials[arm][round_key]
            each = [disturbance_of(trial, rounds.observations) for trial in trials]
            if any(each):
                disturbed[round_key, arm] = typical_disturbance(filter(None, each))
    return disturbed


def _quiet_rounds(
    shared: set[Round], disturbed: Mapping[tuple[Round, Arm], Disturbance], unit: Unit
) -> set[Round]:
    """Return the rounds that are quiet on all arms if enough rows have one, else all."""
    quiet = shared - {round_key for round_key, _ in disturbed}
    is_enough = len({_row_of(round_key, unit) for round_key in quiet}) >= MIN_BLOCKS
    return quiet if is_enough else shared
