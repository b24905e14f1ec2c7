"""A device's measured roofline: the rates of a matrix product and of a copy.

Two things use it alike. A trial's model FLOPs are set against the product's rate in the trial's
own precision (`utilization`), measured by the trial's trainer process; and `rnnsweep hardware
--measure` asks a trainer for both rates (`measure`, a workload), once for each hardware class,
backend and precision.

Method. Square matrices of side 256, 512, … 16,384, until one product takes 20 ms; arrays of 64
MiB, 128 MiB, … 2 GiB (at most a sixteenth of a CPU's memory), until one copy takes 20 ms: the
launch and the wait are nothing beside that. Each size is timed seven times, synchronised at both
edges; the first time is left out, because it may compile. A size is large enough when its fastest
round takes 20 ms. Its rate is that of its median round, told with its slowest and its fastest. The
product's rate is that of the best size, the copy's that of the largest, since smaller arrays may
fit into a cache.

A product of side n is 2 n³ FLOPs, of random numbers: a GPU that multiplies equal ones draws less
power and clocks higher. A copy counts the bytes read and those written. On a GPU it is the
backend's own, with the sign changed, so that it cannot hand out the same buffer twice. On a CPU
it is NumPy's, by as many threads as there are usable CPUs, into memory that is there: a backend's
own takes new memory of the kernel for each result, and would measure how fast that hands it out.

Runs inside a trainer process: imports Keras, whose operations are those of the trial's backend.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np

from workloads.implementations import Precision

Synchronise: TypeAlias = Callable[[Any], None]
Operation: TypeAlias = Callable[[], object]
CopyOf: TypeAlias = Callable[[int], Operation]

DTYPES = {"float32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_ENOUGH_S = 0.02
_ROUNDS = 7
_SIDES = tuple(2**power for power in range(8, 15))
_COPIED_BYTES = tuple(2**power for power in range(26, 32))


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """What a device does a second: in the median round, the slowest, the fastest."""

    median: float
    low: float
    high: float

    def metrics(self, name: str) -> dict[str, float]:
        """As metrics of that name."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


def compute_utilization(
    metrics: Mapping[str, float], precision: Precision, synchronise: Synchronise
) -> dict[str, float]:
    """The device's peak, and the share of it that a trial's model FLOPs reached, in percent.

    Args:
        metrics: of the trial; without `model_flops_per_s` there is nothing to tell.
        precision: that the trial computed in.
        synchronise: waits for the arrays that it is given.
    """
    if "model_flops_per_s" not in metrics:
        return {}
    peak = measure_product_rate(precision, synchronise).median
    share = metrics["model_flops_per_s"] / peak
    return {"peak_flops_per_s": peak, "model_flops_utilization_pct": 100 * share}


@functools.cache
def measure_product_rate(precision: Precision, synchronise: Synchronise) -> MeasuredRate:
    """FLOPs per second of a matrix product, measured once a process and precision.

    TF32 is a switch of the framework, which the trial has set.

    Args:
        precision: of the operands.
        synchronise: waits for the arrays that it is given.
    """
    best = MeasuredRate(0.0, 0.0, 0.0)
    for side in _SIDES:
        seconds = _rounds(_product(side, DTYPES[precision], synchronise))
        best = max(best, _rate(2.0 * side**3, seconds), key=lambda rate: rate.median)
        if min(seconds) >= _ENOUGH_S:
            break
    return best


def measure_copy_rate(copy_of: CopyOf, most_bytes: float = math.inf) -> MeasuredRate:
    """Bytes per second of a copy, those read and those written.

    Args:
        copy_of: makes a copy of so many bytes, which can be done again and again.
        most_bytes: that are copied.
    """
    sizes = [size for size in _COPIED_BYTES if size <= most_bytes] or [_COPIED_BYTES[0]]
    for size in sizes:
        seconds = _rounds(copy_of(size))
        if min(seconds) >= _ENOUGH_S:
            break
    return _rate(2.0 * size, seconds)


def device_copy(dtype: str, synchronise: Synchronise) -> CopyOf:
    """Copies by the backend, within the device's memory."""

    def copy_of(size: int) -> Operation:
        array = keras.ops.full((size // _BYTES[dtype],), 1.5, dtype=dtype)
        synchronise(array)
        return lambda: synchronise(keras.ops.negative(array))

    return copy_of


def host_copy(dtype: str, threads: ThreadPoolExecutor, count: int) -> CopyOf:
    """Copies by NumPy, within the host's memory: each thread one part, at the same time."""

    def copy_of(size: int) -> Operation:
        kind = np.dtype(f"u{_BYTES[dtype]}")  # NumPy has no bfloat16, and a copy needs none
        source, target = (np.ones(size // kind.itemsize, kind) for _ in range(2))
        parts = list(zip(np.array_split(target, count), np.array_split(source, count), strict=True))
        return lambda: list(threads.map(lambda part: np.copyto(*part), parts))

    return copy_of


def _product(side: int, dtype: str, synchronise: Synchronise) -> Operation:
    matrix = keras.ops.cast(keras.random.uniform((side, side), seed=1), dtype)
    synchronise(matrix)
    return lambda: synchronise(keras.ops.matmul(matrix, matrix))


def _rate(work: float, seconds: list[float]) -> MeasuredRate:
    return MeasuredRate(work / statistics.median(seconds), work / max(seconds), work / min(seconds))


def _rounds(operation: Operation) -> list[float]:
    """Seconds of each round but the first."""
    seconds = []
    for _ in range(_ROUNDS):
        began = time.monotonic()
        operation()
        seconds.append(time.monotonic() - began)
    return seconds[1:]
