"""The regularizers of stacked layers, on the one buffer of a fused layer. Imports Keras."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import keras

from workloads.backends.stack_call import StackShape

Factors: TypeAlias = tuple[float, float]
"""The factors of the sum of absolute values (L1), and of the sum of squares (L2)."""


class LayerPenalties(NamedTuple):
    """The regularizers of a layer in one direction."""

    kernel: Factors = (0.0, 0.0)
    recurrent_kernel: Factors = (0.0, 0.0)
    bias: Factors = (0.0, 0.0)


class BufferSlice(NamedTuple):
    """Neighbouring elements of a buffer that have the same factors."""

    begin: int
    end: int
    factors: Factors


class BufferRegularizer(keras.regularizers.Regularizer):
    """The sum of the penalties of all layers, computed on slices of cuDNN's buffer.

    A bias that the buffer has and Keras has not is zero, and so is its penalty.
    """

    def __init__(self, slices: Sequence[BufferSlice]) -> None:
        self.slices = slices

    @classmethod
    def of(cls, shape: StackShape, penalties: Sequence[LayerPenalties]) -> BufferRegularizer | None:
        """Return the regularizer of a stack of that shape; None if nothing is penalised."""
        matrices = [factors for layer in penalties for factors in layer[:2]]
        biases = [layer.bias for layer in penalties for _ in range(2)]  # of the input, the state
        ends = list(accumulate(shape.sizes))
        slices: list[BufferSlice] = []
        for begin, end, factors in zip([0, *ends], ends, [*matrices, *biases], strict=False):
            if not any(factors):
                continue
            if slices and (slices[-1].end, slices[-1].factors) == (begin, factors):
                begin = slices.pop().begin  # noqa: PLW2901 - the slice before it is part of this
            slices.append(BufferSlice(begin, end, factors))
        return cls(slices) if slices else None

    def __call__(self, buffer: Any) -> Any:
        """Return the penalty of a buffer."""
        penalty: Any = 0.0
        for begin, end, (l1, l2) in self.slices:
            weights = buffer[begin:end]
            if l1:
                penalty += l1 * keras.ops.sum(keras.ops.absolute(weights))
            if l2:
                penalty += l2 * keras.ops.sum(keras.ops.square(weights))
        return penalty
