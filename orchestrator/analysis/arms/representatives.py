"""A representative run of each arm, for its telemetry (utilisation, memory, temperature)."""

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
    """Return the run id of each arm's complete trial of median time, from undisturbed ones if any.

    The median of the arm's own trials is typical of it.
    """
    own: dict[Arm, list[FinishedTrial]] = {}
    for trial in record.trials:
        if trial.status == "complete":
            own.setdefault(trial.arm, []).append(trial)
    arms = (*record.arms, *sorted(own.keys() - set(record.arms)))
    return tuple(_typical(own[arm]).run_id for arm in arms if arm in own)


def telemetry_curves(
    trials: Sequence[FinishedTrial], curves: Mapping[str, Telemetry]
) -> tuple[TelemetryCurves, ...]:
    """Return the telemetry that was read, in the order in which arms first occur in the trials."""
    order = {arm: place for place, arm in enumerate(dict.fromkeys(trial.arm for trial in trials))}
    read = (
        TelemetryCurves(trial.arm, trial.block, trial.run_id, telemetry.at_s, telemetry.curves)
        for trial in trials
        if (telemetry := curves.get(trial.run_id)) is not None and telemetry.curves
    )
    return tuple(sorted(read, key=lambda one: order[one.arm]))


def _typical(trials: Sequence[FinishedTrial]) -> FinishedTrial:
    quiet = [trial for trial in trials if not trial.disturbance] or trials
    order = sorted(quiet, key=lambda trial: (_time(trial), trial.block, trial.repeat))
    return order[median_low(range(len(order)))]


def _time(trial: FinishedTrial) -> float:
    """Return the trial's training time, infinite without one."""
    times = (value_of(trial, metric) for metric in reversed(TIMES))
    return next((time for time in times if time is not None), math.inf)
