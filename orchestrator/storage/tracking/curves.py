"""Telemetry over time, read back for a few trials from the metrics that their runs have of it.

A sweep's table has none of it: it is most of what is recorded, and a report shows a few trials'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.core.trial import Telemetry
from orchestrator.storage.tracking.mlflow_store import Store
from orchestrator.storage.tracking.run_content import Point, is_curve
from orchestrator.storage.tracking.trial_runs import finished_of

_ROUNDED_MS = 10
"""A trial's telemetry tells its times in hundredths of a second."""


def read_curves(tracking_uri: str, run_ids: Iterable[str]) -> Mapping[str, Telemetry]:
    """The curves of trials, by the id of their run; those that have none are left out.

    Of a trial that was done again, whose run has the points of every attempt and begins with the
    first, they are those of the attempt that counts.

    Raises:
        TrackingError: the store cannot be reached or used.
    """
    store = Store(tracking_uri)
    found = {run_id: _curves(store, run_id) for run_id in run_ids}
    return {run_id: curves for run_id, curves in found.items() if curves.curves}


def _curves(store: Store, run_id: str) -> Telemetry:
    run = store.run(run_id)
    trial = finished_of(store, run, {})
    if trial is None:
        return Telemetry()
    start_ms, end_ms = (round(s * 1000) for s in (trial.outcome.started_s, trial.outcome.ended_s))
    own = range(start_ms - _ROUNDED_MS, end_ms + _ROUNDED_MS + 1)
    points = {
        name: [each for each in store.history(run_id, name) if each.at_ms in own]
        for name in sorted(run.metrics)
        if is_curve(name)
    }
    times = {each.step: (each.at_ms - start_ms) / 1000 for kept in points.values() for each in kept}
    steps = sorted(times)
    return Telemetry(
        at_s=tuple(times[step] for step in steps),
        curves={name: _at(steps, history) for name, history in points.items() if history},
    )


def _at(steps: Iterable[int], history: Iterable[Point]) -> tuple[float | None, ...]:
    """A value for each step, or None."""
    values = {each.step: each.value for each in history}
    return tuple(values.get(step) for step in steps)
