"""Effects: what each param does to the time and the accuracy of each arm, all others held.

For each arm and metric all params that varied are fitted together over its complete blocks, repeats
averaged first: the logarithm of the time, and the accuracy itself. The intervals are t intervals
with the fit's residual degrees of freedom. They are not corrected for their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from orchestrator.analysis.arms.best_configs import ACCURACIES
from orchestrator.analysis.measures import TIMES, value_of
from orchestrator.analysis.pairing.complete_rounds import CompleteRounds, RoundSelection
from orchestrator.analysis.pairing.pairs import (
    Mean,
    geometric,
    positive_values,
    round_values,
    time_metric,
)
from orchestrator.analysis.statistics.regression import (
    BlockPoint,
    Change,
    CurvePoint,
    DesignOf,
    Fit,
)
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import ConfigValue

_CURVE = 25
"""Points of a line's curve."""


@dataclass(frozen=True, slots=True)
class ParamEffect:
    """The effect of a param on a metric of an arm; a factor if `is_ratio`, else a difference.

    `importance` is the share of the metric's variance between configs that the param alone
    explains (of a ratio: the variance of the logarithm). `points` are the blocks, and `curve` is
    the fit, both with the other params at `held`. Intervals have the level `confidence`. If there
    is no fit, `reason` explains it, and the points are not adjusted.
    """

    arm: Arm
    metric: str
    param: str
    is_ratio: bool
    points: tuple[BlockPoint, ...]
    changes: tuple[Change, ...] = ()
    importance: float | None = None
    curve: tuple[CurvePoint, ...] = ()
    held: Mapping[str, ConfigValue] = field(default_factory=dict)
    confidence: float | None = None
    reason: str | None = None


def effects(
    record: SweepRecord, matched: CompleteRounds, design_of: DesignOf, confidence: float
) -> tuple[ParamEffect, ...]:
    """Return the effects on the time of each arm, then those on its accuracy.

    The accuracy is the first of `ACCURACIES` that was measured, or else an objective to maximize.
    """
    every = [trial for arm in matched.trials for trial in matched.all_trials(arm)]
    measured = {metric for trial in every for metric in trial.metrics}
    goals = (metric for metric, aim in record.objectives.items() if aim == "maximize")
    results: list[ParamEffect] = []
    for metrics, is_ratio in (
        ((time_metric(matched), *TIMES), True),
        ((*ACCURACIES, *goals), False),
    ):
        metric = next((metric for metric in metrics if metric in measured), None)
        for arm in matched.trials if metric else ():
            assert metric is not None
            if values := _block_values(matched, arm, metric, is_ratio=is_ratio):
                fit = Fit(design_of(tuple(values)), values, confidence, is_ratio=is_ratio)
                results += [effect_of(arm, metric, fit, name, _CURVE) for name in fit.design.params]
    return tuple(results)


def effect_of(
    arm: Arm, metric: str, fit: Fit, name: str, count: int, refusal: str | None = None
) -> ParamEffect:
    """Return the effect of the param of this name, or the reason for none; a refusal is one.

    The curve of a line has `count` points.
    """
    effect = ParamEffect(arm, metric, name, fit.is_ratio, fit.points(name))
    if reason := refusal or fit.design.refusal(name):
        return replace(effect, reason=reason)
    return replace(
        effect,
        changes=fit.changes(name),
        importance=fit.importance(name),
        curve=fit.curve(name, count),
        held={other: own.held for other, own in fit.design.params.items() if other != name},
        confidence=fit.confidence,
    )


def _block_values(
    matched: CompleteRounds, arm: Arm, metric: str, *, is_ratio: bool
) -> dict[int, float]:
    """Return the mean of each block: times over quiet rounds, if enough blocks have one."""
    rounds = matched.trials[arm]
    mean: Mean = geometric if is_ratio else fmean
    if is_ratio:
        values = positive_values(rounds, metric)
    else:
        values = round_values(rounds, lambda trial: value_of(trial, metric), mean)
    selection = matched.select(values, (arm,)) if is_ratio else RoundSelection(sorted(values))
    return {
        block: mean([values[place].value for place in places])
        for block, places in selection.by_block.items()
    }
