"""The config to choose by a result, and the arm to use it on.

Like every choice after the fact it is likely a little optimistic.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.analysis.arms.best_configs import (
    TIE_BREAKERS,
    ParetoPoint,
    means,
    rounded_for_ties,
    sign_of,
)
from orchestrator.analysis.arms.mathematics import Mathematics, compute_the_same
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial

_ROUNDING = 1e-9

_WORK = "train_samples"
"""The work of which `train_s` is the time: a callback may have stopped a training early."""

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

    Attributes:
        metric: The metric to optimize.
        time_metric: The first metric in `TIE_BREAKERS` that all equal arms have, of equal work;
            None if they share none.
        leading: The config and arm with the best value. It decides the config.
        chosen: The fastest arm on this config that is as good as the leading one: it computes the
            same from equal starts, or its value is within the margin.
        arms: Every arm: the chosen one, equal ones by time, worse ones by value, then those that
            were left out.
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
    trained = {means(repeats_of[point.arm], [_WORK]).get(_WORK) for point in equal}
    usable = [name for name in TIE_BREAKERS if name != "train_s" or len(trained) == 1]
    measured = (name for name in usable if all(name in times[point.arm] for point in equal))
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
