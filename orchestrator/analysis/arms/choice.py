"""The config to choose by a result, the arm to use it on, and faster configs about as good.

Like every choice after the fact it is likely a little optimistic.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from orchestrator.analysis.arms.best_configs import (
    TIE_BREAKERS,
    ParetoPoint,
    TradeOff,
    config_points,
    means,
    rounded_for_ties,
    sign_of,
)
from orchestrator.analysis.arms.mathematics import Mathematics, compute_the_same
from orchestrator.analysis.pairing.margins import JudgedMargin
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial, canonical

_ROUNDING = 1e-9

_TWO_SIDED = 1.959964
"""The quantile of the normal distribution for 95 %."""

MarginOf: TypeAlias = Callable[[str, float], JudgedMargin]
"""Gives the difference that does not matter from a value of a result."""


Candidacy: TypeAlias = Literal["chosen", "equal", "worse", "left out"]


@dataclass(frozen=True, slots=True)
class ArmOnConfig:
    """An arm on the best config, and whether it was `chosen` there.

    `value` and `time` are means over its repeats. An arm without a full result on the config is
    `left out`, for a `reason`.
    """

    arm: Arm
    candidacy: Candidacy
    value: float | None = None
    time: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ArmChoice:
    """The best config by a metric, and the arm to use it on.

    `leading` has the best value of all configs × arms, which decides the config. `chosen` takes the
    least time of the arms that are equal to it there: those that compute the same from equal
    starts, or whose values are within the margin of the leading one. `time_metric` is the first of
    `TIE_BREAKERS` that all equal arms have; None if they have none in common. `arms` has every arm:
    the chosen one, equal ones by their times, worse ones by their values, and those left out.
    """

    metric: str
    time_metric: str | None
    leading: ParetoPoint
    chosen: ParetoPoint
    arms: tuple[ArmOnConfig, ...]

    def of(self, candidacy: Candidacy) -> tuple[ArmOnConfig, ...]:
        """Return the arms with this candidacy."""
        return tuple(arm for arm in self.arms if arm.candidacy == candidacy)


def choose_arm(  # noqa: PLR0913
    points: Collection[ParetoPoint],
    metric: str,
    direction: Direction,
    *,
    margin_of: Callable[[float], float],
    mathematics: Mapping[Arm, Mathematics],
    trials: Mapping[Arm, Sequence[FinishedTrial]],
    left_out: Mapping[Arm, str],
    outside: Iterable[ParetoPoint] = (),
) -> ArmChoice:
    """Choose the config by the metric, and the arm by time among those that are equal at it.

    `points` are the candidates, at least one. `margin_of` gives the difference that does not matter
    from the best value. `mathematics` are the comparisons of arms that start from equal weights.
    `trials` has every arm. The arms of `left_out` are no candidates, for these reasons, and neither
    are the points `outside` of a limit.
    """
    sign = sign_of(direction)

    def cost(point: ParetoPoint) -> float:
        return sign * point.values[metric]

    leading = min(points, key=lambda point: point.order(cost(point)))
    limit = cost(leading) + margin_of(leading.values[metric]) * (1 + _ROUNDING)

    def is_equal(point: ParetoPoint) -> bool:
        is_tie = rounded_for_ties(cost(point)) == rounded_for_ties(cost(leading))
        is_same = compute_the_same(point.arm, leading.arm, mathematics)
        return is_same or is_tie or cost(point) <= limit

    on_config = [point for point in points if point.block == leading.block]
    repeats_of = {
        arm: [trial for trial in of_arm if trial.block == leading.block]
        for arm, of_arm in trials.items()
    }
    times = {point.arm: means(repeats_of[point.arm], TIE_BREAKERS) for point in on_config}
    equal = [point for point in on_config if is_equal(point)]
    worse = sorted((point for point in on_config if not is_equal(point)), key=cost)
    measured = (name for name in TIE_BREAKERS if all(name in times[point.arm] for point in equal))
    time_metric = next(measured, None)

    def time_of(point: ParetoPoint) -> float | None:
        return times[point.arm].get(time_metric) if time_metric else None

    equal.sort(key=lambda point: (time_of(point) or 0.0, point.order(cost(point))))
    without = {arm: _reason_without_result(of_arm, metric) for arm, of_arm in repeats_of.items()}
    without |= {point.arm: "beyond a limit" for point in outside if point.block == leading.block}
    without |= left_out
    chosen = equal[0] if time_metric else leading
    candidacies: list[tuple[ParetoPoint, Candidacy]] = [
        (chosen, "chosen"),
        *((point, "equal") for point in equal if point is not chosen),
        *((point, "worse") for point in worse),
    ]
    candidates = {point.arm for point in on_config}
    return ArmChoice(
        metric,
        time_metric,
        leading,
        chosen,
        (
            *(
                ArmOnConfig(point.arm, candidacy, point.values[metric], time_of(point))
                for point, candidacy in candidacies
            ),
            *(
                ArmOnConfig(arm, "left out", reason=reason)
                for arm, reason in without.items()
                if arm not in candidates
            ),
        ),
    )


def _reason_without_result(trials: Sequence[FinishedTrial], metric: str) -> str:
    """Return why an arm with these trials of a config has no full result on it."""
    if not trials:
        return "not run"
    ended = next((trial for trial in trials if trial.status != "complete"), None)
    if ended is None:
        return "timing only" if trials[0].arm.measure == "timing" else f"no {metric}"
    reason = ended.failure.reason if ended.failure else ended.status
    return reason.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Choice:
    """The config with the best result, and faster ones, out of `tried` configs × arms.

    `best` is the config on the arm that was chosen for it (see `ArmChoice`). `fastest` has the
    shortest training of all configs within `margin` of the best `result`; it is `best` if none of
    them trains faster. `knee` is the knee of the Pareto front of both; None for fewer than three
    points. Their values are the result, `train_s` and, if it was measured, `step_ms`. `configs` and
    `arms` count what was tried. Of the other configs (of each variant), `within_noise` have a
    result (on their best arm) that `samples` validation samples cannot tell from the best one (two
    proportions, 95 %), the lowest being `lowest_within_noise`; `samples` is None if the result is
    no such accuracy.
    """

    result: str
    margin: JudgedMargin
    best: ParetoPoint
    fastest: ParetoPoint
    knee: ParetoPoint | None
    tried: int
    configs: int
    arms: int
    samples: int | None
    within_noise: int
    lowest_within_noise: float | None


def choose_by_result(
    fronts: Sequence[TradeOff],
    trials: Sequence[FinishedTrial],
    on_arm: ArmChoice | None,
    margin_of: MarginOf,
) -> Choice | None:
    """Return the choice on the front of the result and `train_s` that is over all hardware.

    None without such a front, and for a single config, which is measured to compare arms. `trials`
    are the trials of the fronts, and `on_arm` is the best config by their result.
    """
    whole = next((front for front in fronts if front.expense == "train_s"), None)
    if whole is None or on_arm is None or len({canonical(trial.config) for trial in trials}) < 2:
        return None
    result, sign = whole.result, sign_of(whole.direction)

    def cost(point: ParetoPoint) -> float:
        return sign * point.values[result]

    front = sorted(whole.front.points, key=lambda point: point.order(cost(point)))
    best = _with_times(on_arm.chosen, trials)
    leading = on_arm.leading
    margin = margin_of(result, leading.values[result])
    limit = cost(leading) + margin.value + _ROUNDING
    faster = [
        point
        for point in front
        if cost(point) <= limit and point.values["train_s"] < best.values.get("train_s", math.inf)
    ]
    fastest = min(faster, key=lambda point: point.values["train_s"], default=best)
    bend = _knee([(cost(point), point.values["train_s"]) for point in front])
    tried = config_points((trial for trial in trials if trial.status != "pruned"), (result,))
    noise = _within_noise(leading, tried, result, sign, margin.samples)
    return Choice(
        result=result,
        margin=margin,
        best=best,
        fastest=_with_times(fastest, trials),
        knee=None if bend is None else _with_times(front[bend], trials),
        tried=whole.front.tried,
        configs=len({point.block for point in tried}),
        arms=len({point.arm for point in tried}),
        samples=margin.samples,
        within_noise=len(noise),
        lowest_within_noise=min(noise, default=None),
    )


def _with_times(point: ParetoPoint, trials: Sequence[FinishedTrial]) -> ParetoPoint:
    """Return a point with the mean times of training and per step of its repeats, if they have it.

    The result comes first.
    """
    repeats = [trial for trial in trials if (trial.block, trial.arm) == (point.block, point.arm)]
    return replace(point, values={**point.values, **means(repeats, ("train_s", "step_ms"))})


def _config_of(point: ParetoPoint) -> object:
    """Return what identifies a config of a variant."""
    return point.block, point.arm.variant


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
