"""What a Keras layer is to a library's recurrent kernel: its traits, or why it stays as it is.

Imports Keras.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras

from workloads.layer_traits import Cell, LayerTraits
from workloads.models.buffer_regularizer import Factors, LayerPenalties

GATED_LAYERS = (keras.layers.LSTM, keras.layers.GRU)
_CELL_OF: dict[type, Cell] = {keras.layers.LSTM: "lstm", keras.layers.GRU: "gru"}
_SIMPLE_CELLS: dict[str, Cell] = {"tanh": "rnn_tanh", "relu": "rnn_relu"}
_PLAIN_REGULARIZERS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)
_RESETS_BEFORE = "{library} resets the state after its product (reset_after is false)"
_NO_PENALTY: Factors = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class LibraryLayer:
    """A recurrent layer that has an equal in the libraries' calls, if its traits allow it.

    `sides` are Keras' layers of each direction, the forward one first.
    """

    layer: Any
    sides: tuple[Any, ...]
    traits: LayerTraits

    @property
    def units(self) -> int:
        """Units of each direction."""
        return int(self.sides[0].units)

    @property
    def cells(self) -> tuple[Any, ...]:
        """The cells of each direction, which have the weights."""
        return tuple(side.cell for side in self.sides)

    def penalties(self) -> tuple[LayerPenalties, ...]:
        """Return the factors of the regularizers of each direction."""
        return tuple(
            LayerPenalties(
                _factors(cell.kernel_regularizer),
                _factors(cell.recurrent_regularizer),
                _factors(cell.bias_regularizer),
            )
            for cell in self.cells
        )


def contains_recurrence(layer: Any) -> bool:
    """Return True for a recurrent layer of any kind, and for one that has such a layer inside."""
    return any(isinstance(part, keras.layers.RNN) for part in _parts(layer))


def keras_gated_layers(layer: Any) -> Iterator[Any]:
    """Yield the LSTM and GRU layers inside a layer or model, itself included."""
    return (part for part in _parts(layer) if isinstance(part, GATED_LAYERS))


def keras_recurrent_layers(layer: Any) -> Iterator[Any]:
    """Yield Keras' recurrent layers inside a layer or model, itself included."""
    return (part for part in _parts(layer) if isinstance(part, keras.layers.RNN))


def describe_layer(layer: Any, *, has_mask: bool) -> LibraryLayer | str:
    """Return what a recurrent layer is to a library, or why no library's call can replace it.

    `has_mask`: its input has a mask. The reason is about the layer itself: whether a certain
    library can run the traits is a question for `workloads.eligibility`.
    """
    sides = _sides(layer)
    if isinstance(sides, str):
        return sides
    forward = sides[0]
    cell = _cell_of(forward)
    if cell is None:
        name = keras.activations.serialize(forward.activation)
        return f"the libraries have SimpleRNN only with tanh or relu, not {name}"
    reason = next((r for side in sides if (r := _reason_to_keep(side))), None)
    if reason is not None:
        return reason
    if getattr(layer, "activity_regularizer", None) is not None:
        return "it has an activity regularizer"
    traits = _traits_of(forward, cell, has_mask=has_mask, is_bidirectional=len(sides) == 2)
    return LibraryLayer(layer, sides, traits)


def traits_for_cudnn(layer: Any, *, has_mask: bool) -> tuple[LayerTraits, ...] | str:
    """Return the traits of each direction of a recurrent layer, or why Keras has no cuDNN for it.

    Keras' own path has more than a library's whole call: dropout on the inputs, constraints, any
    regularizer, any direction. Whether a backend's cuDNN can run the traits is a question for
    `workloads.eligibility`.
    """
    if type(layer) is keras.layers.Bidirectional:
        sides = [layer.forward_layer, layer.backward_layer]
    else:
        sides = [layer]
    found = []
    for side in sides:
        cell = _cell_of(side) if type(side) in (*_CELL_OF, keras.layers.SimpleRNN) else None
        if cell is None:
            over = f" over {type(side.cell).__name__}" if hasattr(side, "cell") else ""
            return f"Keras has no cuDNN path for {type(side).__name__}{over}"
        if not getattr(side.cell, "reset_after", True):
            return _RESETS_BEFORE.format(library="cuDNN")
        found.append(_traits_of(side, cell, has_mask=has_mask, is_bidirectional=len(sides) == 2))
    return tuple(found)


def _traits_of(side: Any, cell: Cell, *, has_mask: bool, is_bidirectional: bool) -> LayerTraits:
    """Return the traits of one direction of a layer, to be compared with the other direction's."""
    is_gated = isinstance(side, GATED_LAYERS)
    return LayerTraits(
        cell=cell,
        activation=_activation_name(side.activation) if is_gated else "tanh",
        recurrent_activation=_activation_name(side.recurrent_activation) if is_gated else "sigmoid",
        recurrent_dropout=side.recurrent_dropout,
        use_bias=side.use_bias,
        bidirectional=is_bidirectional,
        mask="right" if has_mask else "none",
        stateful=bool(side.stateful),
    )


def _parts(layer: Any) -> Iterator[Any]:
    """Yield a layer and all layers inside it."""
    yield from layer._flatten_layers()


def _sides(layer: Any) -> tuple[Any, ...] | str:
    """Return Keras' layers of each direction, or why they are none that a library has."""
    if type(layer) is keras.layers.Bidirectional:
        sides = layer.forward_layer, layer.backward_layer
        if any(type(side) not in (*_CELL_OF, keras.layers.SimpleRNN) for side in sides):
            return f"it wraps {type(sides[0]).__name__}: the libraries have LSTM, GRU and SimpleRNN"
        if layer.merge_mode != "concat":
            return f"merge_mode is {layer.merge_mode!r}: the libraries concatenate both directions"
        if sides[0].go_backwards:
            return "its forward layer reads the sequence backwards"
        forward, backward = map(_settings_of, sides)
        if differing := [name for name in forward if forward[name] != backward[name]]:
            return f"its two directions differ in {' and '.join(differing)}"
        return sides
    if type(layer) in (*_CELL_OF, keras.layers.SimpleRNN):
        if layer.go_backwards:
            return "it reads the sequence backwards (go_backwards)"
        return (layer,)
    kind = type(layer).__name__
    if isinstance(layer, keras.layers.RNN):
        over = type(layer.cell).__name__ if hasattr(layer, "cell") else "cells"
        return f"it is a {kind} over {over}: the libraries have LSTM, GRU and SimpleRNN"
    return f"it is a {kind} that contains a recurrent layer"


def _settings_of(side: Any) -> dict[str, Any]:
    """Return what must be equal for both directions."""
    names = ("units", "activation", "recurrent_activation", "use_bias", "reset_after", "unroll")
    return {"cell": type(side)} | {name: getattr(side, name, None) for name in names}


def _cell_of(side: Any) -> Cell | None:
    if type(side) is keras.layers.SimpleRNN:
        return _SIMPLE_CELLS.get(_activation_name(side.activation))
    return _CELL_OF[type(side)]


def _reason_to_keep(side: Any) -> str | None:
    """Return what a layer of one direction has, and no library's call."""
    cell = side.cell
    if cell.dropout:
        return f"it has dropout on its inputs (dropout is {cell.dropout})"
    if not getattr(cell, "reset_after", True):
        return _RESETS_BEFORE.format(library="the libraries' GRU")
    for role in ("kernel", "recurrent", "bias"):
        if getattr(cell, f"{role}_constraint") is not None:
            return f"it has a {role} constraint"
        regularizer = getattr(cell, f"{role}_regularizer")
        if regularizer is not None and type(regularizer) not in _PLAIN_REGULARIZERS:
            return f"its {role} regularizer is neither L1 nor L2"
    return None


def _activation_name(activation: Any) -> str:
    """Return the name of one of Keras' activations; another function is named as the user's own."""
    name = getattr(activation, "__name__", type(activation).__name__)
    is_keras = getattr(keras.activations, name, None) is activation
    return name if is_keras else f"own function {name}"


def _factors(regularizer: Any) -> Factors:
    if regularizer is None:
        return _NO_PENALTY
    return (float(getattr(regularizer, "l1", 0.0)), float(getattr(regularizer, "l2", 0.0)))
