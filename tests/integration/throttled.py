"""A workload that says its clocks were held back: every round is disturbed."""

from __future__ import annotations

from tests.workloads.examples import slicing
from workloads.context import Context


def slow(trial: Context) -> dict[str, float]:
    """Takes its slices on a machine that was too hot."""
    return {**slicing.steady(trial), "throttled_pct": 40.0}
