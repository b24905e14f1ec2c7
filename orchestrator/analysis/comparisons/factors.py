"""Factors: which value of each one is best, by how much, and whether that depends on the others.

The arms of a sweep combine factors: implementation, variant, hardware, threads, CPUs, precision.
The effect of a factor is estimated over the combinations of the others that have all of its values.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from statistics import fmean
from typing import Literal

from orchestrator.analysis.arms.best_configs import sign_of
from orchestrator.analysis.comparisons.ranking import Standing, standing_of
from orchestrator.analysis.measures import value_of
from orchestrator.analysis.pairing.complete_rounds import (
    CompleteRounds,
    Qualifier,
    Round,
    RoundSelection,
    UnitKind,
)
from orchestrator.analysis.pairing.margins import judged_margin
from orchestrator.analysis.pairing.pairs import positive_values, round_values
from orchestrator.analysis.results import result_metrics
from orchestrator.analysis.statistics import estimates
from orchestrator.analysis.statistics.estimates import CONFIDENCE, Estimate
from orchestrator.analysis.statistics.formatting import inverse_difference
from orchestrator.analysis.statistics.verdicts import Conclusion, judge
from orchestrator.core.arms import Arm
from orchestrator.core.disturbance import Disturbance
from orchestrator.core.factors import FACTORS, Factor, FactorName, other_choices
from orchestrator.core.records import Direction, SweepRecord

Dependence = Literal["depends", "alike", "inconclusive"]

_DEPENDENCES: Mapping[Conclusion, Dependence] = {
    "same": "alike",
    "more": "depends",
    "less": "depends",
}


@dataclass(frozen=True, slots=True)
class EffectAt:
    """The effect with one value of another factor; see `Contrast.effect`."""

    value: str
    effect: Estimate | None


@dataclass(frozen=True, slots=True)
class Interaction:
    """Whether an effect depends on another factor: `depends`, `alike` within the margin, or open.

    The intervals of `effects` are plain ones.
    """

    factor: FactorName
    verdict: Dependence
    effects: tuple[EffectAt, ...]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Another value of a factor compared with the best one.

    `effect` is a ratio, the other value's time over the best one's, or a difference of results, the
    best value's result minus the other one's. Its interval is the corrected one, which decides the
    `standing`, or the plain one if there are too few blocks (`is_judged` is false).
    """

    value: str
    standing: Standing
    effect: Estimate | None
    is_judged: bool
    interactions: tuple[Interaction, ...]


@dataclass(frozen=True, slots=True)
class FactorAnswer:
    """Which value of a factor is the best by one metric, averaged over the others' combinations.

    `metric` is the time of the speed-ups (`is_ratio`) or a result. `combinations` counts the
    combinations of other factors, which have all of the compared values; values that none of them
    has are `left_out`. `unit`, `blocks` and `qualifier` are as in a `Ranking`; results do not
    depend on other processes.
    """

    factor: FactorName
    metric: str
    direction: Direction
    is_ratio: bool
    margin: float
    best: str
    others: tuple[Contrast, ...]
    combinations: int
    unit: UnitKind
    blocks: int
    left_out: tuple[str, ...]
    qualifier: Qualifier | None
    disturbance: Disturbance


@dataclass(frozen=True, slots=True)
class _Judging:
    """By which metric values are judged; `margin` and `error` are arguments of `judge`."""

    metric: str
    direction: Direction
    margin: float
    error: float
    is_ratio: bool

    @property
    def sign(self) -> float:
        """The factor that makes a cost of a value: less is better."""
        return sign_of(self.direction)

    def shown(self, costs: Estimate | None) -> Estimate | None:
        """Return a difference of costs as a ratio of times, or as a difference of results.

        Of results it is the best value's minus the other one's: above 0 where more is better.
        """
        if costs is None:
            return None
        if self.is_ratio:
            return estimates.exponential(costs)
        return costs if self.direction == "maximize" else inverse_difference(costs)


_Values = Mapping[Arm, Mapping[Round, float]]
"""The value of each arm in each of its rounds: a logarithm of a time, or a result."""


def factor_answers(
    record: SweepRecord,
    timed: CompleteRounds,
    trained: CompleteRounds,
    metric: str | None,
    error: float,
) -> tuple[FactorAnswer, ...]:
    """Return the answer for each factor with several values, by time and then by each result.

    None in a sweep whose arms differ in one factor only: their comparisons are the answer. `timed`
    are the rounds that have times, `trained` those that have results; `error` is the share of
    families in which one verdict may be wrong.
    """
    answers = []
    if metric:
        values = {arm: _logarithms(timed, arm, metric) for arm in timed.trials}
        margin = math.log1p(record.criteria.margins.speed)
        judging = _Judging(metric, "minimize", margin, error, is_ratio=True)
        answers += _answers(timed, values, judging)
    every = [trial for arm in trained.trials for trial in trained.all_trials(arm)]
    measured = {name for trial in every for name in trial.metrics}
    for name, direction in result_metrics(record, measured).items():
        results = {
            arm: _results(trained, arm, name) for arm in trained.trials if arm.measure == "full"
        }
        if any(results.values()):
            reference = fmean(chain.from_iterable(values.values() for values in results.values()))
            margin = judged_margin(record, trained, name, reference).value
            judging = _Judging(name, direction, margin, 1 - CONFIDENCE, is_ratio=False)
            answers += _answers(trained, results, judging)
    order = [factor.name for factor in FACTORS]
    return tuple(sorted(answers, key=lambda answer: order.index(answer.factor)))


def _logarithms(matched: CompleteRounds, arm: Arm, metric: str) -> dict[Round, float]:
    values = positive_values(matched, arm, metric)
    return {place: math.log(item.value) for place, item in values.items()}


def _results(matched: CompleteRounds, arm: Arm, metric: str) -> dict[Round, float]:
    values = round_values(matched.trials[arm], lambda trial: value_of(trial, metric), fmean)
    return {place: item.value for place, item in values.items()}


_Row = Mapping[Hashable, Arm]
"""The arms of one combination of the other factors, by their value of the factor."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The arms of a factor by its values, in every combination of others that has all values."""

    factor: Factor
    values: tuple[Hashable, ...]
    texts: Mapping[Hashable, str]
    rows: tuple[_Row, ...]
    left_out: tuple[str, ...]


def _answers(matched: CompleteRounds, values: _Values, judging: _Judging) -> list[FactorAnswer]:
    measured = [arm for arm, of_rounds in values.items() if of_rounds]
    # Arms of an earlier start that lack rounds would exclude these rounds.
    whole = [arm for arm in measured if len(values[arm]) == len(matched.rounds)]
    arms = whole if len(whole) > 1 else measured
    several = [factor for factor in FACTORS if len({factor.key(arm) for arm in arms}) > 1]
    if len(several) < 2:
        return []
    answers = []
    for factor in several:
        grid = _grid(factor, arms)
        effects = _grid_effects(matched, grid, values, judging) if grid else None
        if effects:
            answers.append(_answer(effects, several))
    return answers


def _grid(factor: Factor, arms: Sequence[Arm]) -> _Grid | None:
    """Return the largest grid with all values; values are left out until a combination has all."""
    rows: dict[Hashable, dict[Hashable, Arm]] = {}
    for arm in arms:
        rows.setdefault(other_choices(arm, factor), {})[factor.key(arm)] = arm
    texts = {factor.key(arm): factor.text(arm) for arm in arms}
    values = list(texts)
    while len(values) > 1:
        complete = [row for row in rows.values() if all(value in row for value in values)]
        if complete:
            left_out = tuple(text for value, text in texts.items() if value not in values)
            return _Grid(factor, tuple(values), texts, tuple(complete), left_out)
        counts = {value: sum(value in row for row in rows.values()) for value in values}
        values.remove(min(reversed(values), key=lambda value: counts[value]))
    return None


@dataclass(frozen=True, slots=True)
class _GridEffects:
    """The costs of a grid's arms in each block: logarithms of times, or results with their sign."""

    grid: _Grid
    judging: _Judging
    selection: RoundSelection
    costs: Mapping[Arm, Sequence[float]]
    blocks: int

    def effect(self, rows: Sequence[_Row], better: Hashable, other: Hashable) -> list[float]:
        """Return for each block how much more the other value costs, averaged over these rows."""
        return [
            fmean(self.costs[row[other]][block] - self.costs[row[better]][block] for row in rows)
            for block in range(self.blocks)
        ]

    def order(self) -> list[Hashable]:
        """Return the values of the factor, the best one first."""
        total = {
            value: math.fsum(math.fsum(self.costs[row[value]]) for row in self.grid.rows)
            for value in self.grid.values
        }
        return sorted(self.grid.values, key=lambda value: total[value])


def _grid_effects(
    matched: CompleteRounds, grid: _Grid, values: _Values, judging: _Judging
) -> _GridEffects | None:
    """Return the costs over the rounds that all arms of the grid share; None without any."""
    arms = [row[value] for row in grid.rows for value in grid.values]
    shared = set.intersection(*(set(values[arm]) for arm in arms))
    is_ratio = judging.is_ratio  # a disturbance does not change results
    selection = matched.select(shared, arms) if is_ratio else RoundSelection.of_all(shared)
    by_block = selection.by_unit.values()
    if not by_block:
        return None
    costs = {
        arm: [judging.sign * fmean(values[arm][place] for place in places) for places in by_block]
        for arm in arms
    }
    return _GridEffects(grid, judging, selection, costs, len(by_block))


def _answer(effects: _GridEffects, factors: Sequence[Factor]) -> FactorAnswer:
    grid, judging = effects.grid, effects.judging
    best, *others = order = effects.order()
    pairs = list(combinations(order, 2))  # the pairs of the best value come first
    differences = [effects.effect(grid.rows, *pair) for pair in pairs]
    judged = judge(differences, judging.margin, judging.error)
    interactions = _interactions(effects, factors, best, others)
    contrasts = tuple(
        Contrast(
            value=grid.texts[other],
            standing=standing_of(judgement.conclusion),
            effect=judging.shown(judgement.corrected or estimates.t_interval(of_blocks)),
            is_judged=judgement.corrected is not None,
            interactions=interactions[other],
        )
        for other, of_blocks, judgement in zip(others, differences, judged, strict=False)
    )
    return FactorAnswer(
        factor=grid.factor.name,
        metric=judging.metric,
        direction=judging.direction,
        is_ratio=judging.is_ratio,
        margin=math.expm1(judging.margin) if judging.is_ratio else judging.margin,
        best=grid.texts[best],
        others=contrasts,
        combinations=len(grid.rows),
        unit=effects.selection.unit_kind,
        blocks=effects.blocks,
        left_out=grid.left_out,
        qualifier=effects.selection.qualifier,
        disturbance=effects.selection.disturbance,
    )


_Splits = Mapping[FactorName, Mapping[str, Sequence[_Row]]]
"""The rows of a grid by the value of another factor, for each other factor that has several."""


def _interactions(
    effects: _GridEffects, factors: Sequence[Factor], best: Hashable, others: Sequence[Hashable]
) -> dict[Hashable, tuple[Interaction, ...]]:
    """Return of each value, for each other factor, whether its effect depends on it."""
    splits = {
        factor.name: split
        for factor in factors
        if factor is not effects.grid.factor and len(split := _split(effects.grid, factor)) > 1
    }
    dependences = _dependences(effects, splits, best, others)

    def effect_at(text: str, rows: Sequence[_Row], other: Hashable) -> EffectAt:
        of_rows = estimates.t_interval(effects.effect(rows, best, other))
        return EffectAt(text, effects.judging.shown(of_rows))

    return {
        other: tuple(
            Interaction(
                name,
                dependences[other, name],
                tuple(effect_at(text, rows, other) for text, rows in split.items()),
            )
            for name, split in splits.items()
        )
        for other in others
    }


def _dependences(
    effects: _GridEffects, splits: _Splits, best: Hashable, others: Sequence[Hashable]
) -> dict[tuple[Hashable, FactorName], Dependence]:
    """Return whether the effect of each value depends on each other factor.

    All contrasts of two values of another factor are one family.
    """
    contrasts, differences = [], []
    for other in others:
        for name, split in splits.items():
            for rows, other_rows in combinations(split.values(), 2):
                contrasts.append((other, name))
                by_block = zip(
                    effects.effect(rows, best, other),
                    effects.effect(other_rows, best, other),
                    strict=True,
                )
                differences.append([effect - other_effect for effect, other_effect in by_block])
    judged = judge(differences, effects.judging.margin, effects.judging.error)
    verdicts: dict[tuple[Hashable, FactorName], list[Dependence]] = {}
    for contrast, judgement in zip(contrasts, judged, strict=True):
        verdict = _DEPENDENCES.get(judgement.conclusion, "inconclusive")
        verdicts.setdefault(contrast, []).append(verdict)
    return {contrast: _together(of_contrast) for contrast, of_contrast in verdicts.items()}


def _split(grid: _Grid, factor: Factor) -> dict[str, list[_Row]]:
    """Return the rows of a grid by the value of another factor, if each value has the same others.

    Else a difference between two values could come from the factors that differ as well.
    """
    rows: dict[str, list[_Row]] = {}
    rest: dict[str, set[Hashable]] = {}
    for row in grid.rows:
        arm = next(iter(row.values()))
        value = factor.text(arm)
        rows.setdefault(value, []).append(row)
        others = tuple(f.key(arm) for f in FACTORS if f is not factor and f is not grid.factor)
        rest.setdefault(value, set()).add((others, arm.work, arm.measure))
    is_balanced = len({frozenset(keys) for keys in rest.values()}) == 1
    return rows if is_balanced else {}


def _together(verdicts: Sequence[Dependence]) -> Dependence:
    """Return the verdict on all values of another factor from the verdicts on pairs of them."""
    if "depends" in verdicts:
        return "depends"
    return "alike" if all(verdict == "alike" for verdict in verdicts) else "inconclusive"
