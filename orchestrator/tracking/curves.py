"""Telemetry over time, read back for a few trials from the metrics that their runs have of it.

A sweep's table has none of it: it is most of what is recorded, and a report shows a few trials'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.tracking.runs import Point, is_curve
from orchestrator.tracking.store import Store
from orchestrator.trial import Telemetry


def read_curves(tracking_uri: str, run_ids: Iterable[str]) -> Mapping[str, Telemetry]:
    """The curves of trials, by the id of their run; those that have none are left out.

    Raises:
        TrackingError: the store cannot be reached or used.
    """
    store = Store(tracking_uri)
    found = {run_id: _curves(store, run_id) for run_id in run_ids}
    return {run_id: curves for run_id, curves in found.items() if curves.curves}


def _curves(store: Store, run_id: str) -> Telemetry:
    run = store.run(run_id)
    points = {name: store.history(run_id, name) for name in sorted(run.metrics) if is_curve(name)}
    times = {
        each.step: (each.at_ms - run.start_ms) / 1000 for name in points for each in points[name]
    }
    steps = sorted(times)
    return Telemetry(
        at_s=tuple(times[step] for step in steps),
        curves={name: _at(steps, history) for name, history in points.items()},
    )


def _at(steps: Iterable[int], history: Iterable[Point]) -> tuple[float | None, ...]:
    """A value for each step, or None. Of two of one step the later written counts: a trial that
    was done again has the points of both attempts.
    """
    values = {each.step: each.value for each in sorted(history, key=lambda each: each.at_ms)}
    return tuple(values.get(step) for step in steps)
