"""A GPU's measured peak: the rate of a matrix product in a trial's own precision. Imports Keras.

A trial reports its model FLOPs as a share of it. The method is in `docs/hardware.md`.
"""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import keras

from workloads.implementations import Precision

Synchronise: TypeAlias = Callable[[Any], None]
Operation: TypeAlias = Callable[[], object]

_DTYPES = {"float32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_MIN_ROUND_S = 0.02
_ROUNDS = 7
_SIDES = tuple(2**power for power in range(8, 15))


@functools.cache
def measure_product_rate(precision: Precision, synchronise: Synchronise) -> float:
    """Measure the FLOPs/s of a matrix product, once per process; the trial has switched TF32."""
    best = 0.0
    for side in _SIDES:
        seconds = _rounds(_product(side, _DTYPES[precision], synchronise))
        best = max(best, 2.0 * side**3 / statistics.median(seconds))
        if min(seconds) >= _MIN_ROUND_S:
            break
    return best


def _product(side: int, dtype: str, synchronise: Synchronise) -> Operation:
    matrix = keras.ops.cast(keras.random.uniform((side, side), seed=1), dtype)
    return lambda: synchronise(keras.ops.matmul(matrix, matrix))


def _rounds(operation: Operation) -> list[float]:
    """Return the seconds of every round except the first, which has what made the arrays."""
    seconds = []
    for _ in range(_ROUNDS):
        began_s = time.monotonic()
        operation()
        seconds.append(time.monotonic() - began_s)
    return seconds[1:]
