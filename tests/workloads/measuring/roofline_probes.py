"""Workloads for the tests of the roofline, with a clock that only its operations advance."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from workloads.context import Context

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


def host_copy(trial: Context) -> dict[str, float]:
    """Count the copied bytes, and the threads that copied them."""
    import threading
    from concurrent.futures import ThreadPoolExecutor

    from workloads.measuring import roofline

    copied: list[int] = []
    names = set()
    real = np.copyto

    def copyto(target: Any, source: Any) -> None:
        names.add(threading.current_thread().name)
        target[:] = 0
        real(target, source)
        copied.append(int(target.sum()) * target.itemsize)
        barrier.wait(10)

    barrier = threading.Barrier(2)
    with (
        ThreadPoolExecutor(2) as threads,
        mock.patch.object(np, "copyto", copyto),
    ):
        roofline.host_copy("bfloat16", threads, 2)(2**20)()
    return {"bytes": sum(copied), "threads": len(names)}
