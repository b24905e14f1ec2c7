"""The config to choose: the one with the best result, and faster ones that are about as good.

Like every choice after the fact it is likely a little optimistic.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from orchestrator.analysis.arms.best_configs import (
    ParetoPoint,
    TradeOff,
    config_points,
    means,
    rounded_for_ties,
    sign_of,
)
from orchestrator.analysis.pairing.margins import JudgedMargin
from orchestrator.core.trial import FinishedTrial, canonical

_ROUNDING = 1e-9

_TWO_SIDED = 1.959964
"""The quantile of the normal distribution for 95 %."""

MarginOf: TypeAlias = Callable[[str, float], JudgedMargin]
"""Gives the difference that does not matter from a value of a result."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The config with the best result, and faster ones, out of `tried` configs × arms.

    `fastest` has the shortest training of all configs within `margin` of the best `result`. `knee`
    is the knee of the Pareto front of both; None for fewer than three points. Their values are the
    result, `train_s` and, if it was measured, `step_ms`. `configs` and `arms` count what was
    tried. Of the other configs (of each variant), `within_noise` have a result (on their best arm)
    that `samples` validation samples cannot tell from the best one (two proportions, 95 %), the
    lowest being `lowest_within_noise`; `samples` is None if the result is no such accuracy.
    `arms_as_good` counts the arms on which the best config has the same result within rounding.
    """

    result: str
    margin: JudgedMargin
    best: ParetoPoint
    fastest: ParetoPoint
    knee: ParetoPoint | None
    tried: int
    configs: int
    arms: int
    arms_as_good: int
    samples: int | None
    within_noise: int
    lowest_within_noise: float | None


def choose_by_result(
    fronts: Sequence[TradeOff], trials: Sequence[FinishedTrial], margin_of: MarginOf
) -> Choice | None:
    """Return the choice on the front of the result and `train_s` that is over all hardware.

    None without such a front, and for a single config, which is measured to compare arms. `trials`
    are the trials of the fronts.
    """
    whole = next((front for front in fronts if front.expense == "train_s"), None)
    if whole is None or len({canonical(trial.config) for trial in trials}) < 2:
        return None
    result, sign = whole.result, sign_of(whole.direction)

    def cost(point: ParetoPoint) -> float:
        return sign * point.values[result]

    front = sorted(whole.front.points, key=lambda point: point.order(cost(point)))
    best = front[0]
    margin = margin_of(result, best.values[result])
    within = [point for point in front if cost(point) <= cost(best) + margin.value + _ROUNDING]
    fastest = min(within, key=lambda point: point.values["train_s"])
    bend = _knee([(cost(point), point.values["train_s"]) for point in front])
    tried = config_points((trial for trial in trials if trial.status != "pruned"), (result,))
    noise = _within_noise(best, tried, result, sign, margin.samples)
    return Choice(
        result=result,
        margin=margin,
        best=_with_step_time(best, trials),
        fastest=_with_step_time(fastest, trials),
        knee=None if bend is None else _with_step_time(front[bend], trials),
        tried=whole.front.tried,
        configs=len({point.block for point in tried}),
        arms=len({point.arm for point in tried}),
        arms_as_good=len(_arms_as_good(best, tried, result)),
        samples=margin.samples,
        within_noise=len(noise),
        lowest_within_noise=min(noise, default=None),
    )


def _with_step_time(point: ParetoPoint, trials: Sequence[FinishedTrial]) -> ParetoPoint:
    """Return a point with the mean time per step of its repeats, if they have it."""
    repeats = [trial for trial in trials if (trial.block, trial.arm) == (point.block, point.arm)]
    return replace(point, values={**point.values, **means(repeats, ("step_ms",))})


def _config_of(point: ParetoPoint) -> object:
    """Return what identifies a config of a variant."""
    return point.block, point.arm.variant


def _arms_as_good(best: ParetoPoint, tried: Collection[ParetoPoint], result: str) -> set[object]:
    """Return the arms on which the best config has the same result within rounding."""
    return {
        point.arm
        for point in tried
        if _config_of(point) == _config_of(best)
        and rounded_for_ties(point.values[result]) == rounded_for_ties(best.values[result])
    }


def _within_noise(
    best: ParetoPoint,
    tried: Collection[ParetoPoint],
    result: str,
    sign: float,
    samples: int | None,
) -> list[float]:
    """Return the results of other configs that so many samples cannot tell from the best one.

    Each config counts with its result on its best arm. There are none if `samples` is None.
    """
    if samples is None:
        return []
    costs: dict[object, float] = {}
    for point in tried:
        config = _config_of(point)
        costs[config] = min(sign * point.values[result], costs.get(config, math.inf))
    results = [sign * cost for config, cost in costs.items() if config != _config_of(best)]
    return [value for value in results if not _differ(value, best.values[result], samples)]


def _differ(share: float, other: float, samples: int) -> bool:
    """Return whether two shares of so many samples differ by more than chance (95 %, two-sided)."""
    error = math.sqrt((share * (1 - share) + other * (1 - other)) / samples)
    return abs(share - other) > _TWO_SIDED * error + _ROUNDING


def _knee(costs: Sequence[tuple[float, float]]) -> int | None:
    """Return the index of a front's knee: the point farthest below the line between its ends.

    `costs` are the result (less is better) and the time of each point, the best result first. Both
    axes are scaled to 1 between the ends, time by its logarithm, because ratios of it matter:
    I. Das, "On characterizing the knee of the Pareto curve based on Normal-Boundary Intersection",
    Structural Optimization 18, 1999.
    """
    (best, slowest), (worst, fastest) = costs[0], costs[-1]
    if not 0 < fastest < slowest:
        return None
    sums = [
        (cost - best) / (worst - best) + math.log(time / fastest) / math.log(slowest / fastest)
        for cost, time in costs
    ]
    bend = min(range(len(sums)), key=lambda i: sums[i])
    return bend if sums[bend] < 1 - _ROUNDING else None
