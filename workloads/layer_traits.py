"""What a stack of recurrent layers is: the properties that decide which kernel may run it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Cell: TypeAlias = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
Mask: TypeAlias = Literal["none", "right", "left"]

CELLS: tuple[Cell, ...] = ("lstm", "gru", "rnn_tanh", "rnn_relu")
SIMPLE_CELLS: tuple[Cell, ...] = ("rnn_tanh", "rnn_relu")
"""The cells without gates: Keras' SimpleRNN."""


@dataclass(frozen=True, slots=True)
class LayerTraits:
    """Properties of a stack of recurrent layers that decide which kernel may run it.

    `dropout` is the rate between the layers of the stack. `mask` is the side of the padding, in
    sequences of at least one step.
    """

    cell: Cell = "lstm"
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    recurrent_dropout: float = 0.0
    use_bias: bool = True
    layers: int = 1
    bidirectional: bool = False
    dropout: float = 0.0
    mask: Mask = "none"
    stateful: bool = False

    @property
    def is_gated(self) -> bool:
        """True for a cell with gates (lstm, gru), whose activations can be chosen."""
        return self.cell not in SIMPLE_CELLS
