"""The canary: a short, fixed piece of work, timed before and after a trial's timed part.

It is the same for every trial, so a change in its time comes from the node: another virtual machine
on the host, an unreported clock. It takes about 20 ms, allocates nothing on a CPU, and fits into a
core's own cache. A GPU has a canary of its own: matrix products in float16, for 20 ms at least.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads.protocol import Device
from workloads.resources import peak_rss_mib

if TYPE_CHECKING:
    from workloads.backends.framework import Framework

_ROUNDS = 5
"""The median of the rounds counts, so that one interruption is not a disturbance."""

_CALLS = 80
_LOOPS = 60_000
_SOURCE = np.linspace(0.1, 1.0, 2**15, dtype=np.float32)
_TARGET = np.empty_like(_SOURCE)

_SIDE, _LEAST_S = 4_096, 0.02
_WARMING_SIDE, _WARMING_S = 1_024, 0.05
"""An idle GPU lowers its clocks, to a sixth on an H200, and raises them within this time."""


def run_with_canary(
    device: Device, framework: Framework, work: Callable[[], dict[str, float]]
) -> dict[str, float]:
    """Run a trial's timed part between two canaries; return metrics and the slower `canary_ms`."""
    # A GPU's has matrices of its own: it runs afterwards only, once the peak memory was read.
    before_ms = run_canary()
    warm_clocks(device, framework.synchronise)
    framework.reset_peak_memory()
    metrics = {**work(), "canary_ms": max(before_ms, run_canary())}
    if (peak_mib := framework.peak_gpu_mib()) is not None:
        metrics["peak_gpu_mib"] = peak_mib
    if device == "gpu":
        metrics["canary_gpu_ms"] = run_device_canary(framework.synchronise)
    return metrics


def peak_memory() -> dict[str, float]:
    """Return the peak of the memory of this process, where it is counted."""
    peak_mib = peak_rss_mib()
    return {} if peak_mib is None else {"peak_rss_mib": peak_mib}


def run_canary() -> float:
    """Run the canary outside windows; return its time in ms, the median of five rounds."""
    return 1_000 * statistics.median(_seconds(_run_on_cpu) for _ in range(_ROUNDS))


def run_device_canary(synchronise: Callable[[Any], None], side: int = _SIDE) -> float:
    """Return the ms of one product on the device: so many that a round lasts, median of five."""
    multiply, count = products(side, synchronise), 1
    while _seconds(multiply, count) < _LEAST_S:
        count *= 2
    return 1_000 * statistics.median(_seconds(multiply, count) for _ in range(_ROUNDS)) / count


def warm_clocks(device: Device, synchronise: Callable[[Any], None]) -> None:
    """Keep a GPU busy before a window until its clocks are high; do nothing on a CPU."""
    if device == "gpu":
        multiply, until_s = products(_WARMING_SIDE, synchronise), time.monotonic() + _WARMING_S
        while time.monotonic() < until_s:
            multiply(10)


def _seconds(work: Callable[..., object], *arguments: int) -> float:
    began_s = time.monotonic()
    work(*arguments)
    return time.monotonic() - began_s


def _run_on_cpu() -> int:
    """Run loops of NumPy and of the interpreter, about equally long, on one thread."""
    for _ in range(_CALLS):
        np.sqrt(_SOURCE, out=_TARGET)
        np.exp(_TARGET, out=_TARGET)
        np.multiply(_TARGET, _SOURCE, out=_TARGET)
    total = 0
    for number in range(_LOOPS):
        total += number * number % 7
    return total


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
