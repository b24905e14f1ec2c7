"""A device's measured roofline: the rates of a matrix product and of a copy.

Two things use it alike. A trial's model FLOPs are set against the product's rate in the trial's
own precision (`utilization`), measured by the trial's trainer process; and `rnnsweep hardware
--measure` asks a trainer for both rates (`measure`, a workload), once for each hardware class,
backend and precision.

Method. Square matrices of side 256, 512, … 16,384, until one product takes 20 ms; arrays of 64
MiB, 128 MiB, … 2 GiB (at most an eighth of a CPU's memory), until one copy takes 20 ms: the launch
and the wait are nothing beside that. Each size is timed seven times, synchronised at both edges;
the first time is left out, because it may compile. A size's rate is that of its median round, told
with its slowest and its fastest. The product's rate is that of the best size, the copy's that of
the largest, since smaller arrays may fit into a cache. A product of side n is 2 n³ FLOPs, of
random numbers: a GPU that multiplies equal ones draws less power and clocks higher. A copy counts
the bytes read and those written; it changes the sign, so that no backend can hand out the same
buffer twice.

Runs inside a trainer process: imports Keras, whose operations are those of the trial's backend.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras

from workloads.cgroups import read_limits
from workloads.context import Context
from workloads.implementations import Precision
from workloads.measurement import prepared

Synchronise: TypeAlias = Callable[[Any], None]

_DTYPES = {"float32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_ENOUGH_S = 0.02
_ROUNDS = 7
_SIDES = tuple(2**power for power in range(8, 15))
_COPIED_BYTES = tuple(2**power for power in range(26, 32))

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Of glibc's `mallopt`."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a device does a second: in the median round, the slowest, the fastest."""

    median: float
    low: float
    high: float

    def metrics(self, name: str) -> dict[str, float]:
        """As metrics of that name."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


def utilization(
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
    peak = product_rate(precision, synchronise).median
    share = metrics["model_flops_per_s"] / peak
    return {"peak_flops_per_s": peak, "model_flops_utilization_pct": 100 * share}


def measure(trial: Context) -> dict[str, float]:
    """A workload: `product_flops_per_s` and `copy_bytes_per_s`, each with `_low` and `_high`.

    The precision is that of the trial's implementation; TF32 is one of products, and its trial
    has no copy.
    """
    with prepared(trial) as framework:
        _keep_memory()
        precision = trial.implementation.precision
        found = product_rate(precision, framework.synchronise).metrics("product_flops_per_s")
        if precision != "tf32":
            most = _eighth_of_memory() if trial.device == "cpu" else math.inf
            copied = copy_rate(precision, framework.synchronise, most)
            found |= copied.metrics("copy_bytes_per_s")
        return found


@functools.cache
def product_rate(precision: Precision, synchronise: Synchronise) -> Rate:
    """FLOPs per second of a matrix product, measured once a process and precision.

    TF32 is a switch of the framework, which the trial has set.

    Args:
        precision: of the operands.
        synchronise: waits for the arrays that it is given.
    """
    best = Rate(0.0, 0.0, 0.0)
    for side in _SIDES:
        matrix = keras.ops.cast(keras.random.uniform((side, side), seed=1), _DTYPES[precision])
        seconds = _rounds(lambda of: keras.ops.matmul(of, of), matrix, synchronise)
        best = max(best, _rate(2.0 * side**3, seconds), key=lambda rate: rate.median)
        if statistics.median(seconds) >= _ENOUGH_S:
            break
    return best


def copy_rate(precision: Precision, synchronise: Synchronise, most_bytes: float = math.inf) -> Rate:
    """Bytes per second of a copy, those read and those written.

    Args:
        precision: of what is copied.
        synchronise: waits for the arrays that it is given.
        most_bytes: that an array may have.
    """
    dtype = _DTYPES[precision]
    sizes = [size for size in _COPIED_BYTES if size <= most_bytes] or [_COPIED_BYTES[0]]
    for size in sizes:
        array = keras.ops.full((size // _BYTES[dtype],), 1.5, dtype=dtype)
        seconds = _rounds(keras.ops.negative, array, synchronise)
        if statistics.median(seconds) >= _ENOUGH_S:
            break
    return _rate(2.0 * size, seconds)


def _rate(work: float, seconds: list[float]) -> Rate:
    return Rate(work / statistics.median(seconds), work / max(seconds), work / min(seconds))


def _rounds(operation: Callable[[Any], Any], operand: Any, synchronise: Synchronise) -> list[float]:
    """Seconds of each round but the first."""
    seconds = []
    for _ in range(_ROUNDS):
        synchronise(operand)
        began = time.monotonic()
        synchronise(operation(operand))
        seconds.append(time.monotonic() - began)
    return seconds[1:]


def _eighth_of_memory() -> float:
    """Bytes: of the machine's memory, or of what the cgroup allows of it."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = read_limits().memory_mib
    return min(machine, machine if allowed is None else allowed * 2**20) / 8


def _keep_memory() -> None:
    """Let the C library keep what is freed, so that a copy writes to memory that is there.

    Otherwise each large array is new memory of the kernel's, and a CPU's copy would measure how
    fast that hands out zeroed pages. Where the C library is not glibc, that is what it measures.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
