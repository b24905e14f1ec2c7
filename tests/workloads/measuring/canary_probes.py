"""Workloads that look at the canary in a real trainer."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from typing import Any
from unittest import mock

from workloads.context import Context
from workloads.measuring import canary
from workloads.measuring.measurement import prepare_framework
from workloads.tasks.image_rows import run


def told(trial: Context) -> dict[str, float]:
    """`image_rows`, whose canary tells when it sings, and takes 3 ms and then 2."""
    takes_ms = iter((3.0, 2.0))

    def run_canary(*_: Any) -> float:
        with trial.phase("canary"):
            return next(takes_ms)

    import workloads.measuring.full_training

    with mock.patch.object(workloads.measuring.full_training, "run_canary", run_canary):
        return run(trial)


def on_a_device(trial: Context) -> dict[str, float]:
    """A GPU's canary on whatever device there is, smaller; how often it waited for the device."""
    waits = []
    with prepare_framework(trial) as framework, mock.patch.object(canary, "_SIDE", 64):

        def synchronise(values: Any) -> None:
            framework.synchronise(values)
            waits.append([tuple(value.shape) for value in values])

        canary_ms = canary.run_canary("gpu", synchronise)
    assert set(map(tuple, waits)) == {((64, 64),)}, waits
    return {"waits": len(waits), "canary_ms": canary_ms}
