"""The state of a device around a measurement: its clocks before, its peak memory afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workloads.protocol import Device
from workloads.resources import peak_rss_mib

if TYPE_CHECKING:
    from workloads.backends.framework import Framework
    from workloads.context import Context

_WARMING_SIDE, _WARMING_S = 1_024, 0.05
"""An idle GPU lowers its clocks, to a sixth on an H200, and raises them within this time."""


def peak_memory(trial: Context, framework: Framework) -> dict[str, float]:
    """Return the peak memory of this process and of its GPU, where they are counted."""
    peaks = {"peak_rss_mib": peak_rss_mib()}
    with trial.optional("peak_gpu_mib"):
        peaks["peak_gpu_mib"] = framework.peak_gpu_mib()
    return {name: peak for name, peak in peaks.items() if peak is not None}


def warm_clocks(device: Device, synchronise: Callable[[Any], None]) -> None:
    """Keep a GPU busy before a window until its clocks are high; do nothing on a CPU."""
    if device == "gpu":
        multiply, until_s = products(_WARMING_SIDE, synchronise), time.monotonic() + _WARMING_S
        while time.monotonic() < until_s:
            multiply(10)


def products(side: int, synchronise: Callable[[Any], None]) -> Callable[[int], None]:
    """Return a function that multiplies matrices on the device; it has run once, to compile."""
    import keras  # noqa: PLC0415 - imports the framework

    matrix = keras.random.uniform((side, side), dtype="float16", seed=1)

    def multiply(count: int) -> None:
        for _ in range(count):
            product = keras.ops.matmul(matrix, matrix)
        synchronise([product])  # a device computes in order

    multiply(1)
    return multiply
