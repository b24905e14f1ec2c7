"""A GPU's measured roofline: the rates of a matrix product and of a memory copy. Imports Keras.

A trial reports its model FLOPs as a share of the product's rate in its own precision. `rnnsweep
hardware --measure` asks for both rates (`workloads.diagnostics.peak_rates`). The method is in
`docs/hardware.md`.
"""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import keras

from workloads.implementations import Precision

Synchronise: TypeAlias = Callable[[Any], None]
Operation: TypeAlias = Callable[[], object]

_DTYPES = {"float32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_MIN_ROUND_S = 0.02
_ROUNDS = 7
_SIDES = tuple(2**power for power in range(8, 15))
_COPIED_BYTES = tuple(2**power for power in range(26, 32))


class MeasuredRate(NamedTuple):
    """Work per second in the median, the slowest and the fastest round."""

    median: float
    low: float
    high: float

    def metrics(self, name: str) -> dict[str, float]:
        """Return the three rates as metrics `name`, `name_low` and `name_high`."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


@functools.cache
def measure_product_rate(precision: Precision, synchronise: Synchronise) -> MeasuredRate:
    """Measure the FLOPs/s of a matrix product, once per process; the trial has switched TF32."""
    best = MeasuredRate(0.0, 0.0, 0.0)
    for side in _SIDES:
        seconds = _rounds(_product(side, _DTYPES[precision], synchronise))
        best = max(best, _rate(2.0 * side**3, seconds))
        if min(seconds) >= _MIN_ROUND_S:
            break
    return best


def measure_copy_rate(precision: Precision, synchronise: Synchronise) -> MeasuredRate:
    """Measure the bytes per second of a copy by the backend, read and written bytes together."""
    for size in _COPIED_BYTES:
        seconds = _rounds(_copy(size, _DTYPES[precision], synchronise))
        if min(seconds) >= _MIN_ROUND_S:
            break
    return _rate(2.0 * size, seconds)


def _product(side: int, dtype: str, synchronise: Synchronise) -> Operation:
    matrix = keras.ops.cast(keras.random.uniform((side, side), seed=1), dtype)
    return lambda: synchronise(keras.ops.matmul(matrix, matrix))


def _copy(size: int, dtype: str, synchronise: Synchronise) -> Operation:
    array = keras.ops.full((size // _BYTES[dtype],), 1.5, dtype=dtype)
    return lambda: synchronise(keras.ops.negative(array))


def _rate(work: float, seconds: list[float]) -> MeasuredRate:
    return MeasuredRate(work / statistics.median(seconds), work / max(seconds), work / min(seconds))


def _rounds(operation: Operation) -> list[float]:
    """Return the seconds of every round except the first, which has what made the arrays."""
    seconds = []
    for _ in range(_ROUNDS):
        began_s = time.monotonic()
        operation()
        seconds.append(time.monotonic() - began_s)
    return seconds[1:]
