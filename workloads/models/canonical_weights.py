"""One layout for the weights of every recurrent layer, and exact conversions to other layouts.

The canonical layout is the layout of Keras' own layers (`docs/adding.md`). A stack is a
list: layer 0 forward, layer 0 backward, layer 1 forward, … NumPy only; nothing is cast or rounded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.backends.stack_call import GATES, StackShape

Weights: TypeAlias = NDArray[Any]


class CanonicalLayer(NamedTuple):
    """A recurrent layer in one direction; `bias` is None for a layer without bias."""

    kernel: Weights
    recurrent_kernel: Weights
    bias: Weights | None

    @property
    def gates(self) -> int:
        """Number of gates of the cell: 4 for lstm, 3 for gru, 1 for a simple cell."""
        units, width = self.recurrent_kernel.shape
        return int(width // units)


class TorchLayer(NamedTuple):
    """A layer in one direction in the layout of PyTorch and cuDNN, in their argument order."""

    weight_ih: Weights
    weight_hh: Weights
    bias_ih: Weights
    bias_hh: Weights


def to_torch(layer: CanonicalLayer) -> TorchLayer:
    """Convert a layer with a bias to PyTorch's `weight_ih_l0, weight_hh_l0, bias_ih_l0, …`."""
    kernel, recurrent_kernel, bias = layer
    assert bias is not None  # the libraries' calls need one: see eligibility
    biases = bias if layer.gates == GATES["gru"] else (bias, np.zeros_like(bias))
    matrices = (
        np.ascontiguousarray(_reorder(matrix, layer.gates).T)
        for matrix in (kernel, recurrent_kernel)
    )
    return TorchLayer(*matrices, *(_reorder(bias_array, layer.gates) for bias_array in biases))


def from_torch(layer: TorchLayer) -> CanonicalLayer:
    """Invert `to_torch`; the two biases of a cell with one canonical bias are added up."""
    rows, units = layer.weight_hh.shape
    gates = rows // units
    kernel, recurrent_kernel = (
        np.ascontiguousarray(_reorder(matrix.T, gates)) for matrix in layer[:2]
    )
    biases = [_reorder(bias, gates) for bias in layer[2:]]
    bias = np.stack(biases) if gates == GATES["gru"] else biases[0] + biases[1]
    return CanonicalLayer(kernel, recurrent_kernel, bias)


def to_buffer(stack: Sequence[CanonicalLayer]) -> Weights:
    """Convert a stack to cuDNN's opaque buffer, a one-dimensional array."""
    layers = [to_torch(layer) for layer in stack]
    matrices = [matrix.ravel() for layer in layers for matrix in layer[:2]]
    return np.concatenate([*matrices, *(bias for layer in layers for bias in layer[2:])])


def from_buffer(buffer: Weights, shape: StackShape) -> list[CanonicalLayer]:
    """Convert cuDNN's opaque buffer, of the length for this shape, to a stack."""
    pieces = np.split(buffer, np.cumsum(shape.sizes)[:-1])
    matrices = [piece.reshape(s) for piece, s in zip(pieces, shape.matrices, strict=False)]
    biases = pieces[len(matrices) :]
    return [
        from_torch(TorchLayer(*matrices[n : n + 2], *biases[n : n + 2]))
        for n in range(0, len(matrices), 2)
    ]


def _reorder(weights: Weights, gates: int) -> Weights:
    """Swap a GRU's gates on the last axis between z, r, h and r, z, n; keep other cells' gates."""
    if gates != GATES["gru"]:
        return weights
    first, second, third = np.split(weights, gates, axis=-1)
    return np.concatenate([second, first, third], axis=-1)
