"""A whole stack of recurrent layers in one call of a framework's library: the kernel `fused`.

`workloads.models.fused_stack` has the Keras layer, which makes a `StackCall` of each batch;
`Framework.run_stack` runs it. Evidence recognises the call by the scope named `SCOPE`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.layer_traits import Cell

SCOPE = "fused_stack"

LEFT_PADDED = (
    "mask: the library's call would silently misread it: pad on the right, after at least one step,"
    " or use the portable kernel"
)

GATES: dict[Cell, int] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Number of gates: matrix products with the input (and with the state) in one step of a cell."""


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
        of_layer = np.repeat([True, False], GATES[self.cell] * self.units)
        return np.tile(of_layer, self.pseudo_layers)


@dataclass(frozen=True, slots=True)
class StackCall:
    """A batch for a stack, in arrays of the framework.

    `weights` is cuDNN's opaque buffer, in the parts of `shape`. `sequences` have the shape
    (batch, steps, inputs), each initial state (layers·directions, batch, units). `lengths` (the
    unmasked steps of each sequence) and `is_right_padded` (of the mask) are None without a mask.
    `dropout` is the rate between the layers, applied in training only; `seed` is for a library that
    takes one.
    """

    shape: StackShape
    weights: Any
    sequences: Any
    states: tuple[Any, ...]
    lengths: Any
    is_right_padded: Any
    dropout: float
    seed: int
    training: bool
