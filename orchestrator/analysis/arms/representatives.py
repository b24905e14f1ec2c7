"""One run for each arm, whose telemetry stands for it: utilisation, memory, heat over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from orchestrator.analysis.metrics.derived import value_of
from orchestrator.analysis.metrics.measures import TIMES
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, Telemetry


@dataclass(frozen=True, slots=True)
class TelemetryCurves:
    """The telemetry of one trial: for each curve (`system/…`) a value or None at each of `at_s`."""

    arm: Arm
    block: int
    run_id: str
    at_s: tuple[float, ...]
    curves: Mapping[str, tuple[float | None, ...]]


def representatives(record: SweepRecord) -> tuple[str, ...]:
    """A run id for each arm that has one: the complete trial of middling time, quiet if any is.

    The middle of the arm's own trials, so that what is shown is what it mostly was.
    """
    own: dict[Arm, list[FinishedTrial]] = {}
    for trial in record.trials:
        if trial.status == "complete":
            own.setdefault(trial.arm, []).append(trial)
    arms = (*record.arms, *sorted(own.keys() - set(record.arms)))
    return tuple(_middle(own[arm]).run_id for arm in arms if arm in own)


def telling(
    trials: Sequence[FinishedTrial], curves: Mapping[str, Telemetry]
) -> tuple[TelemetryCurves, ...]:
    """The telemetry that was read, in the order in which the arms first stand in the trials."""
    order = {arm: place for place, arm in enumerate(dict.fromkeys(each.arm for each in trials))}
    read = (
        TelemetryCurves(trial.arm, trial.block, trial.run_id, found.at_s, found.curves)
        for trial in trials
        if (found := curves.get(trial.run_id)) is not None and found.curves
    )
    return tuple(sorted(read, key=lambda each: order[each.arm]))


def _middle(trials: Sequence[FinishedTrial]) -> FinishedTrial:
    quiet = [trial for trial in trials if not trial.disturbance] or trials
    order = sorted(quiet, key=lambda trial: (_time(trial), trial.block, trial.repeat))
    return order[median_low(range(len(order)))]


def _time(trial: FinishedTrial) -> float:
    """The trial's training time, the longer the later; trials without one come last."""
    told = (value_of(trial, metric) for metric in reversed(TIMES))
    return next((found for found in told if found is not None), math.inf)
