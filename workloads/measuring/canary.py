"""A short, fixed piece of work, timed before and after a trial's timed epochs.

It is the same for every trial, so that a change of its time is the node's and not the model's:
some disturbance shows in no counter (a neighbour of the machine's host who takes its caches or its
memory's bandwidth, a clock that nobody tells). What is usual is learnt from a sweep's trials.

It takes about 20 ms, allocates nothing on a CPU, and fits into a core's own cache: what it puts
out of there comes back within a millisecond. On a GPU it adds products on the device, in float16:
no switch of a framework changes those.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from workloads.protocol import Device

_ROUNDS = 5
"""The median of them is told: one interruption is no disturbance."""

_CALLS = 80
_LOOPS = 60_000
_SOURCE = np.linspace(0.1, 1.0, 2**15, dtype=np.float32)
_TARGET = np.empty_like(_SOURCE)

_SIDE = 2_048
_PRODUCTS = 32


def run_canary(device: Device, synchronise: Callable[[Any], None]) -> float:
    """Milliseconds that the work took: the median of five rounds. Call it outside of windows.

    Args:
        device: on a GPU the device works too.
        synchronise: waits for arrays of the framework, as `Framework.synchronise`.
    """
    on_device = _products(synchronise) if device == "gpu" else None
    seconds = []
    for _ in range(_ROUNDS):
        began_s = time.monotonic()
        _work()
        if on_device is not None:
            on_device()
        seconds.append(time.monotonic() - began_s)
    return 1_000 * statistics.median(seconds)


def _work() -> int:
    """NumPy's loops and the interpreter's, about as long: one thread, whatever the model uses."""
    for _ in range(_CALLS):
        np.sqrt(_SOURCE, out=_TARGET)
        np.exp(_TARGET, out=_TARGET)
        np.multiply(_TARGET, _SOURCE, out=_TARGET)
    total = 0
    for number in range(_LOOPS):
        total += number * number % 7
    return total


def _products(synchronise: Callable[[Any], None]) -> Callable[[], None]:
    """Products on the device, once done already: that compiled them."""
    import keras  # noqa: PLC0415 - imports the framework

    matrix = keras.random.uniform((_SIDE, _SIDE), dtype="float16", seed=1)

    def multiply() -> None:
        for _ in range(_PRODUCTS):
            product = keras.ops.matmul(matrix, matrix)
        synchronise([product])  # a device does in order what it was given

    multiply()
    return multiply
