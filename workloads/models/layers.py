"""Recurrent layers for every cell and kernel. Runs inside a trainer process: imports Keras."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import keras

from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.fused_stack import FusedStack
from workloads.protocol import TimedWork
from workloads.settings import StackSettings

_GATED = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
_SIMPLE = {"rnn_tanh": "tanh", "rnn_relu": "relu"}
_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
_CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)


def recurrent_stack(settings: StackSettings, *, return_sequences: bool, seed: int) -> list[Any]:
    """Return the recurrent layers of a model, with the dropout between them.

    They are Keras' own, as anybody would write them: `workloads.models.rewriting` gives them the
    kernel of a trial's arm. Recurrent layers are named recurrent_0, …, dropouts dropout_0, ….
    `seed` is the first of 3 · layers seeds of the dropout masks.
    """
    layers: list[Any] = []
    for index in range(settings.layers):
        is_last, first_seed = index == settings.layers - 1, seed + 3 * index
        layers.append(_keras_layer(settings, index, return_sequences or not is_last, first_seed))
        if settings.dropout and not is_last:
            layers.append(dropout(settings.dropout, first_seed + 2, f"dropout_{index}"))
    return layers


def dropout(rate: float, seed: int, name: str) -> Any:
    """Return a dropout layer."""
    return keras.layers.Dropout(rate, seed=layer_seed(seed), name=name)


def layer_seed(number: int) -> int:
    """Return a seed of a Keras layer, which is a signed 32-bit integer."""
    return number % 2**31


def layers_of(model: Any) -> Iterator[Any]:
    """Yield the layers of a model in its order, and the layers of a nested model in its place."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from layers_of(layer)
        else:
            yield layer


def recurrent_layers(model: Any) -> list[Any]:
    """Return the layers whose weights `read_canonical` returns; a fused layer is a whole stack."""
    return [layer for layer in layers_of(model) if is_recurrent(layer)]


def is_recurrent(layer: Any) -> bool:
    """Return True if `read_canonical` returns the weights of a layer."""
    if isinstance(layer, keras.layers.Bidirectional):
        layer = layer.forward_layer
    return isinstance(layer, FusedStack) or isinstance(getattr(layer, "cell", None), _CELLS)


def is_stateful(model: Any) -> bool:
    """Return True if a batch starts from the final states of the batch before it."""
    return bool(stateful_layers(model))


def stateful_layers(model: Any) -> list[Any]:
    """Return the layers that start a batch from the final states of the last one.

    They may be anywhere inside the model, as in a layer of the user's own. The two directions of a
    `Bidirectional` layer count as one.
    """
    layers = model._flatten_layers(include_self=False)
    stateful = [layer for layer in layers if getattr(layer, "stateful", False)]
    sides = {id(side) for layer in stateful for side in _sides(layer)}
    return [layer for layer in stateful if id(layer) not in sides]


def state_variables(layer: Any) -> list[Any]:
    """Return the states of a recurrent layer: those of all its cells, and of both directions."""
    states = [getattr(part, "states", None) for part in (layer, *_sides(layer))]
    return [state for state in keras.tree.flatten(states) if isinstance(state, keras.Variable)]


def reset_states(model: Any) -> None:
    """Reset the states of a model's stateful layers to zero."""
    for layer in stateful_layers(model):
        if states := state_variables(layer):  # Keras' `reset_state` fails for stacked cells
            for state in states:
                state.assign(keras.ops.zeros_like(state.value))
        elif hasattr(layer, "reset_state"):
            layer.reset_state()


def _sides(layer: Any) -> list[Any]:
    """Return the two directions of a `Bidirectional` layer, or nothing."""
    if not isinstance(layer, keras.layers.Bidirectional):
        return []
    return [layer.forward_layer, layer.backward_layer]


def read_canonical(model: Any) -> list[CanonicalLayer]:
    """Return the weights of a built model's recurrent layers, for every kind."""
    return [weights for layer in recurrent_layers(model) for weights in _read_layer(layer)]


def write_canonical(model: Any, stack: Iterable[CanonicalLayer]) -> None:
    """Set the weights of a model's recurrent layers, in the shapes of `read_canonical`."""
    layers = iter(stack)
    for layer in recurrent_layers(model):
        if isinstance(layer, FusedStack):
            layer.write(list(islice(layers, layer.stack_shape.pseudo_layers)))
            continue
        for cell in _cells(layer):
            for variable, array in zip(_cell_variables(cell), next(layers), strict=False):
                variable.assign(array)


def flops_of_step(model: Any, steps: int, timed_work: TimedWork) -> int:
    """Return one sample's FLOPs in a training step or a prediction."""
    flops = training_flops if timed_work == "train" else forward_flops
    return flops(model, steps)


def training_flops(model: Any, steps: int) -> int:
    """Return one sample's FLOPs in a training step, forward and backward, from model weights.

    The backward pass has two products for every product of the forward pass: by the inputs and by
    the weights (Kaplan et al. 2020, arXiv 2001.08361, section 2.1). Recomputation never counts: the
    figure depends on the model alone.
    """
    return 3 * forward_flops(model, steps)


def forward_flops(model: Any, steps: int) -> int:
    """Return one sample's FLOPs in a forward pass, from model weights.

    `steps` is the length of the data's sequences, for layers that take any length.

    Only matrix products of recurrent, dense and convolutional layers count, a multiplication and an
    addition as two operations, as in DeepBench (`8·h·(x + h)` for an LSTM's step) and the PaLM
    report (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Raise `ValueError` if the shape of
    a layer's output is not known, as in a model with a `call` of its own.
    """
    products = 0
    for layer in layers_of(model):
        if is_recurrent(layer):
            elements = sum(w.kernel.size + w.recurrent_kernel.size for w in _read_layer(layer))
            products += _steps_of(layer, steps) * elements
        elif isinstance(layer, keras.layers.Dense):
            products += math.prod(layer.kernel.shape) * math.prod(
                size or steps for size in _output_shape(layer)[1:-1]
            )
        elif isinstance(layer, _CONVOLUTIONS):
            is_last = layer.data_format == "channels_last"
            shape = _output_shape(layer)
            places = shape[1:-1] if is_last else shape[2:]
            products += math.prod(layer.kernel.shape) * math.prod(size or steps for size in places)
    return 2 * products


def _output_shape(layer: Any) -> Any:
    """Return the shape of a layer's output; `ValueError` for a layer outside of any graph."""
    try:
        return layer.output.shape
    except AttributeError:
        raise ValueError(
            f"the output shape of layer {layer.name} is unknown, because only the code of its model"
            " calls it"
        ) from None


def _keras_layer(settings: StackSettings, index: int, return_sequences: bool, seed: int) -> Any:
    """Return one of Keras' own layers, bidirectional if the settings are."""
    arguments: dict[str, Any] = {
        "return_sequences": return_sequences,
        "recurrent_dropout": settings.recurrent_dropout,
        "use_bias": settings.use_bias,
        "stateful": settings.stateful,
    }
    if settings.cell in _SIMPLE:
        arguments["activation"] = _SIMPLE[settings.cell]
    else:
        arguments["activation"] = settings.activation
        arguments["recurrent_activation"] = settings.recurrent_activation
    name, make = f"recurrent_{index}", _GATED.get(settings.cell, keras.layers.SimpleRNN)
    forward = make(settings.units, name=name, seed=layer_seed(seed), **arguments)
    if not settings.bidirectional:
        return forward
    arguments |= {"seed": layer_seed(seed + 1), "go_backwards": True}
    backward = make(settings.units, name=f"backward_{name}", **arguments)
    return keras.layers.Bidirectional(forward, backward_layer=backward, name=name)


def _steps_of(layer: Any, steps: int) -> int:
    """Return the length of the sequences that a layer was built for; `steps` if it is open."""
    try:
        sequences = keras.tree.flatten(layer.input)[0]  # initial states follow
    except (AttributeError, ValueError):  # a layer of a subclassed model, or one with two inputs
        return steps
    return sequences.shape[1] or steps


def _cells(layer: Any) -> list[Any]:
    """Return the cells of one of Keras' own recurrent layers, forward and backward."""
    return [side.cell for side in _sides(layer) or [layer]]


def _read_layer(layer: Any) -> list[CanonicalLayer]:
    if isinstance(layer, FusedStack):
        return layer.read()
    weights = []
    for cell in _cells(layer):
        kernel, recurrent_kernel, *bias = map(keras.ops.convert_to_numpy, _cell_variables(cell))
        weights.append(CanonicalLayer(kernel, recurrent_kernel, bias[0] if bias else None))
    return weights


def _cell_variables(cell: Any) -> list[Any]:
    return [cell.kernel, cell.recurrent_kernel, *([cell.bias] if cell.use_bias else [])]
