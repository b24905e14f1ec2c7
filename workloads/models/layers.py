"""Recurrent layers for every cell and kernel. Runs inside a trainer process: imports Keras."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import keras

from workloads.backends.loading import load_framework
from workloads.implementations import Implementation
from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.fused_stack import FusedStack
from workloads.settings import StackSettings

_GATED = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
_SIMPLE = {"rnn_tanh": "tanh", "rnn_relu": "relu"}


def recurrent_stack(
    settings: StackSettings, implementation: Implementation, *, return_sequences: bool, seed: int
) -> list[Any]:
    """Return the recurrent layers of a model, with the dropout between them.

    Keras' own layers are named recurrent_0, … and the dropouts dropout_0, …. The fused kernel is
    one layer named recurrent. `seed` is the first of 3 · layers seeds of the dropout masks.
    """
    if implementation.kernel == "fused":
        framework = load_framework(implementation.backend)
        return [
            FusedStack(
                settings, framework, return_sequences=return_sequences, seed=layer_seed(seed)
            )
        ]
    layers: list[Any] = []
    for index in range(settings.layers):
        is_last, first_seed = index == settings.layers - 1, seed + 3 * index
        with_steps = return_sequences or not is_last
        layers.append(_keras_layer(settings, implementation, index, with_steps, first_seed))
        if settings.dropout and not is_last:
            layers.append(dropout(settings.dropout, first_seed + 2, f"dropout_{index}"))
    return layers


def dropout(rate: float, seed: int, name: str) -> Any:
    """Return a dropout layer."""
    return keras.layers.Dropout(rate, seed=layer_seed(seed), name=name)


def layer_seed(number: int) -> int:
    """Return a seed of a Keras layer, which is a signed 32-bit integer."""
    return number % 2**31


def read_canonical(model: Any) -> list[CanonicalLayer]:
    """Return the weights of a built sequential model's recurrent layers, for every kind."""
    stack: list[CanonicalLayer] = []
    for holder in _holders(model):
        if isinstance(holder, FusedStack):
            stack += holder.read()
        else:
            arrays = map(keras.ops.convert_to_numpy, _cell_variables(holder))
            kernel, recurrent_kernel, *bias = arrays
            stack.append(CanonicalLayer(kernel, recurrent_kernel, bias[0] if bias else None))
    return stack


def write_canonical(model: Any, stack: Iterable[CanonicalLayer]) -> None:
    """Set the weights of a model's recurrent layers, in the shapes of `read_canonical`."""
    layers = iter(stack)
    for holder in _holders(model):
        if isinstance(holder, FusedStack):
            holder.write(list(islice(layers, holder.stack_shape.pseudo_layers)))
        else:
            for variable, array in zip(_cell_variables(holder), next(layers), strict=False):
                variable.assign(array)


def is_recurrent(layer: Any) -> bool:
    """Return True if `read_canonical` returns the weights of a layer."""
    return isinstance(layer, FusedStack | keras.layers.Bidirectional | keras.layers.RNN)


def training_flops(model: Any, steps: int) -> int:
    """Return one sample's FLOPs, forward and backward over that many steps, from model weights.

    Only matrix products count, a multiplication and an addition as two operations, as in DeepBench
    (`8·h·(x + h)` for an LSTM's step) and the PaLM report (Chowdhery et al. 2022, arXiv 2204.02311,
    appendix B). Recomputation never counts: the figure depends on the model alone. The backward
    pass has two products for every product of the forward pass: by the inputs and by the weights
    (Kaplan et al. 2020, arXiv 2001.08361, section 2.1).
    """
    stack = read_canonical(model)
    products = steps * sum(layer.kernel.size + layer.recurrent_kernel.size for layer in stack)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dense):
            products += math.prod(layer.kernel.shape) * math.prod(layer.output.shape[1:-1])
    return 3 * 2 * products


def _keras_layer(
    settings: StackSettings,
    implementation: Implementation,
    index: int,
    return_sequences: bool,
    seed: int,
) -> Any:
    """Return one of Keras' own layers, bidirectional if the settings are."""
    # `use_cudnn` is always True or False, also inside Bidirectional: "auto" falls back silently.
    arguments: dict[str, Any] = {
        "return_sequences": return_sequences,
        "recurrent_dropout": settings.recurrent_dropout,
        "use_bias": settings.use_bias,
        "stateful": settings.stateful,
        "unroll": "unroll" in implementation.options,
    }
    if settings.cell in _SIMPLE:
        arguments["activation"] = _SIMPLE[settings.cell]
    else:
        arguments["activation"] = settings.activation
        arguments["recurrent_activation"] = settings.recurrent_activation
        arguments["use_cudnn"] = implementation.kernel == "cudnn"
    name, make = f"recurrent_{index}", _GATED.get(settings.cell, keras.layers.SimpleRNN)
    forward = make(settings.units, name=name, seed=layer_seed(seed), **arguments)
    if not settings.bidirectional:
        return forward
    arguments |= {"seed": layer_seed(seed + 1), "go_backwards": True}
    backward = make(settings.units, name=f"backward_{name}", **arguments)
    bidirectional = keras.layers.Bidirectional(forward, backward_layer=backward, name=name)
    # Bidirectional copies `forward` with use_cudnn="auto", which would switch XLA off on a GPU.
    bidirectional.forward_layer.supports_jit = forward.supports_jit
    return bidirectional


def _holders(model: Any) -> Iterator[Any]:
    """Yield the holders of recurrent weights in canonical order: fused layers and Keras' cells."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.Bidirectional):
            yield from (layer.forward_layer.cell, layer.backward_layer.cell)
        elif is_recurrent(layer):
            yield layer if isinstance(layer, FusedStack) else layer.cell


def _cell_variables(cell: Any) -> list[Any]:
    return [cell.kernel, cell.recurrent_kernel, *([cell.bias] if cell.use_bias else [])]
