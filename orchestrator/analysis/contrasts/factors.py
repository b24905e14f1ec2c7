"""Factors: the best value of each, by how much, and whether that depends on another factor.

The arms of a sweep combine factors: implementation, variant, hardware, threads, CPUs, precision.
The effect of a factor is averaged over the combinations of the others that have all of its values.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from orchestrator.analysis.contrasts.contrast import Contrast, Question
from orchestrator.analysis.contrasts.families import ArmWeights, Comparison, Judging, judge_family
from orchestrator.analysis.contrasts.matrix import Matrix
from orchestrator.core.arm_factors import FACTORS, Factor, other_choices
from orchestrator.core.arms import Arm

ArmsByValue: TypeAlias = Mapping[Hashable, Arm]
"""The arms of one combination of the other factors, by their value of the factor."""


@dataclass(frozen=True, slots=True)
class FactorGrid:
    """The arms of a factor by its values, in every combination of others that has all values.

    There are two combinations or more: the values of a single one are a pair of arms.
    """

    factor: Factor
    values: tuple[Hashable, ...]
    texts: Mapping[Hashable, str]
    combinations: tuple[ArmsByValue, ...]


def by_factors(matrix: Matrix, judging: Judging) -> tuple[Contrast, ...]:
    """Compare the best value of each factor with its other values, and find what that depends on.

    None for arms that differ in one factor alone: their own comparisons are the answer. Each factor
    is a family of all pairs of its values, because the best one is chosen by its own numbers; the
    interactions of a factor are another one. An interaction of two factors is asked once.
    """
    arms = [arm for arm in matrix.arms if arm not in judging.other_mathematics]
    several = [factor for factor in FACTORS if len({factor.key(arm) for arm in arms}) > 1]
    if len(several) < 2 or not matrix.rows:
        return ()
    found, asked = list[Contrast](), set[frozenset[tuple[Arm, float]]]()
    for factor in several:
        grid = grid_of(factor, arms)
        if grid is None:
            continue
        best, *others = order = _ordered(matrix, grid)
        pairs = [
            Comparison(
                grid.texts[better], grid.texts[other], _weights(grid.combinations, better, other)
            )
            for better, other in combinations(order, 2)
        ]
        judged = judge_family(matrix, Question.FACTOR, pairs, judging)
        found += judged[: len(others)]  # the pairs of the best value come first
        rows = [
            row
            for row in _interactions(grid, several, best, others)
            if frozenset(row.weights.items()) not in asked
        ]
        for row in rows:
            asked.add(frozenset(row.weights.items()))
            asked.add(frozenset((arm, -weight) for arm, weight in row.weights.items()))
        found += judge_family(matrix, Question.INTERACTION, rows, judging)
    return tuple(found)


def grid_of(factor: Factor, arms: Sequence[Arm]) -> FactorGrid | None:
    """Return the grid of most values; values are left out until two combinations have all.

    None if no two combinations of the other factors have two of the factor's values.
    """
    rows: dict[Hashable, dict[Hashable, Arm]] = {}
    for arm in arms:
        rows.setdefault(other_choices(arm, factor), {})[factor.key(arm)] = arm
    texts = {factor.key(arm): factor.text(arm) for arm in arms}
    values = list(texts)
    while len(values) > 1:
        complete = [row for row in rows.values() if all(value in row for value in values)]
        if len(complete) > 1:
            return FactorGrid(factor, tuple(values), texts, tuple(complete))
        counts = {value: sum(value in row for row in rows.values()) for value in values}
        values.remove(min(reversed(values), key=lambda value: counts[value]))
    return None


def _ordered(matrix: Matrix, grid: FactorGrid) -> list[Hashable]:
    """Return the values of the factor, the best one first."""
    sign = -1.0 if matrix.direction == "maximize" else 1.0

    def cost(value: Hashable) -> float:
        weights = {combination[value]: 1.0 for combination in grid.combinations}
        return sign * math.fsum(matrix.combined(weights))

    return sorted(grid.values, key=cost)


def _weights(
    rows: Sequence[ArmsByValue], value: Hashable, other: Hashable, weight: float = 1.0
) -> ArmWeights:
    """Return the weights of the mean over combinations of one value minus another one."""
    share = weight / len(rows)
    return {
        **{row[value]: share for row in rows},
        **{row[other]: -share for row in rows},
    }


def _interactions(
    grid: FactorGrid, factors: Sequence[Factor], best: Hashable, others: Sequence[Hashable]
) -> Iterator[Comparison]:
    """Yield how the gain by the best value differs between two values of another factor."""
    for factor in factors:
        if factor is grid.factor:
            continue
        split = _split(grid, factor)
        for other in others:
            gain = f"{grid.texts[best]} instead of {grid.texts[other]}"
            for (first, rows), (second, other_rows) in combinations(split.items(), 2):
                weights = {
                    **_weights(rows, best, other),
                    **_weights(other_rows, best, other, weight=-1.0),
                }
                yield Comparison(f"{gain}, {first}", f"{gain}, {second}", weights)


def _split(grid: FactorGrid, factor: Factor) -> dict[str, list[ArmsByValue]]:
    """Return the combinations by the value of another factor, if each value has the same others.

    Else a difference between two values could come from the factors that differ as well.
    """
    rows: dict[str, list[ArmsByValue]] = {}
    rest: dict[str, set[Hashable]] = {}
    for row in grid.combinations:
        arm = next(iter(row.values()))
        value = factor.text(arm)
        rows.setdefault(value, []).append(row)
        others = tuple(f.key(arm) for f in FACTORS if f is not factor and f is not grid.factor)
        rest.setdefault(value, set()).add((others, arm.work, arm.measure))
    is_balanced = len({frozenset(keys) for keys in rest.values()}) == 1
    return rows if is_balanced else {}
