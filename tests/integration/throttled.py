"""A workload that reports throttled clocks, so that every round is disturbed."""

from __future__ import annotations

from tests.workloads.examples import slicing
from workloads.context import Context


def slow(trial: Context) -> dict[str, float]:
    """Run steady slices and report 40 % throttling."""
    return {**slicing.steady(trial), "throttled_pct": 40.0}
