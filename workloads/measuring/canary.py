"""The canary: a short, fixed piece of work, timed before and after a trial's timed part.

It is the same for every trial, so a change in its time comes from the node: another virtual machine
on the host, an unreported clock. It takes about 20 ms, allocates nothing on a CPU, and fits into a
core's own cache. On a GPU it adds matrix products in float16 on the device.
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
    from workloads.frameworks.framework import Framework

_ROUNDS = 5
"""The median of the rounds counts, so that one interruption is not a disturbance."""

_CALLS = 80
_LOOPS = 60_000
_SOURCE = np.linspace(0.1, 1.0, 2**15, dtype=np.float32)
_TARGET = np.empty_like(_SOURCE)

_SIDE = 2_048
_PRODUCTS = 32


def run_with_canary(
    device: Device, framework: Framework, work: Callable[[], dict[str, float]]
) -> dict[str, float]:
    """Run the timed part of a trial between two canaries; return its metrics and `canary_ms`.

    The slower of both is reported. The peak of the GPU's memory starts at the timed part.
    """
    before_ms = run_canary(device, framework.synchronise)
    framework.reset_peak_memory()
    metrics = work()
    after_ms = run_canary(device, framework.synchronise)
    return {**metrics, "canary_ms": max(before_ms, after_ms)}


def peak_memory(framework: Framework) -> dict[str, float]:
    """Return the peaks of the memory of this process and of its GPU, where they are counted."""
    peaks = {"peak_rss_mib": peak_rss_mib(), "peak_gpu_mib": framework.peak_gpu_mib()}
    return {name: peak for name, peak in peaks.items() if peak is not None}


def run_canary(device: Device, synchronise: Callable[[Any], None]) -> float:
    """Run the canary outside windows; return its time in ms, the median of five rounds."""
    run_on_device = _device_products(synchronise) if device == "gpu" else None
    seconds = []
    for _ in range(_ROUNDS):
        began_s = time.monotonic()
        _run_on_cpu()
        if run_on_device is not None:
            run_on_device()
        seconds.append(time.monotonic() - began_s)
    return 1_000 * statistics.median(seconds)


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


def _device_products(synchronise: Callable[[Any], None]) -> Callable[[], None]:
    """Return a function that multiplies matrices on the device; it has run once, to compile."""
    import keras  # noqa: PLC0415 - imports the framework

    matrix = keras.random.uniform((_SIDE, _SIDE), dtype="float16", seed=1)

    def multiply() -> None:
        for _ in range(_PRODUCTS):
            product = keras.ops.matmul(matrix, matrix)
        synchronise([product])  # a device computes in order

    multiply()
    return multiply
