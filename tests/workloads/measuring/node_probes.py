"""Workloads that inspect the canary, and the roofline with a clock that only operations advance."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

from workloads.context import Context
from workloads.measuring import canary
from workloads.measuring.measurement import prepare_framework
from workloads.tasks.training import image_rows

COMPILING_S, JITTER = 100.0, (1.0, 0.5, 1.0, 2.0, 1.0, 1.5)
RATES = {256: 1e10, 512: 8e10, 1024: 4e10}
"""FLOPs per second by side: the largest matrix is not the fastest one."""

SMALL_BYTES_PER_S, LARGE_BYTES_PER_S, CACHE_BYTES = 64e9, 12e9, 100 * 2**20


class Device:
    """A device with simulated times: the first operation at a size compiles, the others vary."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.calls: dict[int, int] = {}

    def spend(self, size: int, seconds: float) -> None:
        """Advance the clock by an operation at that size."""
        call = self.calls[size] = self.calls.get(size, 0) + 1
        factor = JITTER[(call - 2) % len(JITTER)]
        self.now_s += seconds * factor + (COMPILING_S if call == 1 else 0.0)

    def product(self, first: Any, second: Any) -> Any:
        """Replace Keras' `matmul`."""
        side = int(first.shape[0])
        self.spend(side, 2.0 * side**3 / RATES[side])
        return first

    def copy(self, array: Any) -> Any:
        """Replace Keras' `negative`, on a device with a cache."""
        size = 4 * int(array.shape[0])
        rate = SMALL_BYTES_PER_S if size <= CACHE_BYTES else LARGE_BYTES_PER_S
        self.spend(size, 2.0 * size / rate)
        return array


def method(trial: Context) -> dict[str, float]:
    """Measure the rates of a device with known times; count its operations."""
    import keras

    from workloads.measuring import roofline

    device = Device()

    def synchronise(_: Any) -> None:
        """Do nothing; a new function, so that no rate is cached for it."""

    with (
        mock.patch.object(roofline, "time", SimpleNamespace(monotonic=lambda: device.now_s)),
        mock.patch.object(keras.ops, "matmul", device.product),
        mock.patch.object(keras.ops, "negative", device.copy),
    ):
        product = roofline.measure_product_rate("float32", synchronise)
        sides = dict(device.calls)
        copy_of = roofline.device_copy("float32", synchronise)
        copied = roofline.measure_copy_rate(copy_of, max_bytes=2**30)
        little = roofline.measure_copy_rate(copy_of, max_bytes=1)
    return {
        **product.metrics("product"),
        **copied.metrics("copy"),
        "largest_side": max(sides),
        "rounds": sides[256],
        "largest_copy_mib": max(device.calls) / 2**20,
        "little": little.median,
    }


def phases(trial: Context) -> dict[str, float]:
    """Run `image_rows` with a canary that is a phase of its own, and takes 3 ms and then 2."""
    durations_ms = iter((3.0, 2.0))

    def run_canary(*_: Any) -> float:
        with trial.phase("canary"):
            return next(durations_ms)

    with mock.patch.object(canary, "run_canary", run_canary):
        return image_rows(trial)


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
