"""One layout for the weights of every recurrent layer, and exact conversions to other layouts.

The canonical layout is that of Keras' own layers (`docs/weights.md`). A stack is a list: layer 0
forward, layer 0 backward, layer 1 forward, … NumPy only; nothing is cast or rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.eligibility import Cell

Weights: TypeAlias = NDArray[Any]

GATES: dict[Cell, int] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Number of gates: matrix products with the input (and with the state) in one step of a cell."""


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


@dataclass(frozen=True)
class StackShape:
    """Sizes of a stack, and of the parts of its buffer."""

    cell: Cell
    inputs: int
    units: int
    layers: int = 1
    bidirectional: bool = False

    @property
    def directions(self) -> int:
        """1 or 2."""
        return 2 if self.bidirectional else 1

    @property
    def pseudo_layers(self) -> int:
        """Layers × directions."""
        return self.layers * self.directions

    @cached_property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """Shapes of weight_ih and weight_hh of all pseudo-layers, in the order of the buffer."""
        rows = GATES[self.cell] * self.units
        widths = [self.inputs] * self.directions
        widths += [self.directions * self.units] * (self.pseudo_layers - self.directions)
        return tuple(shape for width in widths for shape in ((rows, width), (rows, self.units)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the buffer's parts: all matrices, then bias_ih and bias_hh of every layer."""
        biases = (GATES[self.cell] * self.units,) * (2 * self.pseudo_layers)
        return (*(rows * columns for rows, columns in self.matrices), *biases)

    @cached_property
    def matrices_size(self) -> int:
        """Number of elements in the buffer before the first bias."""
        return sum(self.sizes[: len(self.matrices)])

    @cached_property
    def trained_biases(self) -> NDArray[np.bool_] | None:
        """Mask of the trained biases in the buffer; None if all are trained (gru)."""
        if self.cell == "gru":
            return None
        one = np.repeat([True, False], GATES[self.cell] * self.units)
        return np.tile(one, self.pseudo_layers)


def to_torch(layer: CanonicalLayer) -> TorchLayer:
    """Convert a layer with a bias to PyTorch's `weight_ih_l0, weight_hh_l0, bias_ih_l0, …`."""
    kernel, recurrent_kernel, bias = layer
    assert bias is not None  # the libraries' calls need one: see eligibility
    biases = bias if layer.gates == GATES["gru"] else (bias, np.zeros_like(bias))
    matrices = (
        np.ascontiguousarray(_reorder(matrix, layer.gates).T)
        for matrix in (kernel, recurrent_kernel)
    )
    return TorchLayer(*matrices, *(_reorder(one, layer.gates) for one in biases))


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
