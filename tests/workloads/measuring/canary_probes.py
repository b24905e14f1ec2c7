"""Workloads that inspect the canary in a real trainer."""

from __future__ import annotations

from typing import Any
from unittest import mock

from workloads.context import Context
from workloads.measuring import canary
from workloads.measuring.measurement import prepare_framework
from workloads.tasks.image_rows import run


def phases(trial: Context) -> dict[str, float]:
    """Run `image_rows` with a canary that is a phase of its own, and takes 3 ms and then 2."""
    durations_ms = iter((3.0, 2.0))

    def run_canary(*_: Any) -> float:
        with trial.phase("canary"):
            return next(durations_ms)

    with mock.patch.object(canary, "run_canary", run_canary):
        return run(trial)


def on_a_device(trial: Context) -> dict[str, float]:
    """Run a GPU's canary, smaller, on any device; count how often it waited for the device."""
    waits = []
    with prepare_framework(trial) as framework, mock.patch.object(canary, "_SIDE", 64):

        def synchronise(values: Any) -> None:
            framework.synchronise(values)
            waits.append([tuple(value.shape) for value in values])

        canary_ms = canary.run_canary("gpu", synchronise)
    assert set(map(tuple, waits)) == {((64, 64),)}, waits
    return {"waits": len(waits), "canary_ms": canary_ms}
