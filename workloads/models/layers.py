"""Recurrent layers for every cell and kernel. Runs inside a trainer process: imports Keras."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import keras

from workloads.implementations import Implementation
from workloads.models.canonical_weights import CanonicalLayer
from workloads.models.fused.fused_stack import FusedStack
from workloads.settings import StackSettings

_SEEDS = 2**31  # a seed of a Keras layer is a signed 32-bit integer
_GATED = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}
_SIMPLE = {"rnn_tanh": "tanh", "rnn_relu": "relu"}


def recurrent_stack(
    settings: StackSettings, implementation: Implementation, *, return_sequences: bool, seed: int
) -> list[Any]:
    """Return the recurrent layers of a model, with the dropout between them.

    Keras' own layers are named recurrent_0, … and the dropouts dropout_0, …. The fused kernel is
    one layer named recurrent. There is no dropout after the last layer.

    Args:
        settings: cell, sizes and other settings of the stack.
        implementation: its kernel decides on the kind of layers.
        return_sequences: the last layer, too, returns the outputs of all steps.
        seed: first seed of the dropout masks. The next 3 · layers seeds are used.
    """
    if implementation.kernel == "fused":
        tf32 = implementation.precision == "tf32"
        return [
            FusedStack(
                settings,
                return_sequences=return_sequences,
                seed=seed % _SEEDS,
                tf32=tf32,
                name="recurrent",
            )
        ]
    layers: list[Any] = []
    for index in range(settings.layers):
        is_last, layer_seed = index == settings.layers - 1, seed + 3 * index
        with_steps = return_sequences or not is_last
        layers.append(_keras_layer(settings, implementation, index, with_steps, layer_seed))
        if settings.dropout and not is_last:
            dropout_seed, name = (layer_seed + 2) % _SEEDS, f"dropout_{index}"
            layers.append(keras.layers.Dropout(settings.dropout, seed=dropout_seed, name=name))
    return layers


def read_canonical(model: Any) -> list[CanonicalLayer]:
    """Return the weights of a built sequential model's recurrent layers, for every kind."""
    stack: list[CanonicalLayer] = []
    for holder in _holders(model):
        stack += holder.read() if isinstance(holder, FusedStack) else [_read(holder)]
    return stack


def write_canonical(model: Any, stack: Sequence[CanonicalLayer]) -> None:
    """Set the weights of a model's recurrent layers: the inverse of `read_canonical`.

    Raises:
        ValueError: the stack does not fit the model.
    """
    expected = [layer.shapes for layer in read_canonical(model)]
    if (received := [layer.shapes for layer in stack]) != expected:
        raise ValueError(
            f"stack: expected layers of the shapes {expected}, as the model {model.name!r} has;"
            f" received {received}"
        )
    layers = iter(stack)
    for holder in _holders(model):
        if isinstance(holder, FusedStack):
            holder.write(list(islice(layers, holder.stack_shape.pseudo_layers)))
        else:
            _write(holder, next(layers))


def is_recurrent(layer: Any) -> bool:
    """Return True if `read_canonical` returns the weights of a layer."""
    return isinstance(layer, FusedStack | keras.layers.Bidirectional | keras.layers.RNN)


def forward_flops(model: Any, steps: int) -> int:
    """Return the FLOPs of one sample's forward pass over that many steps, from a model's weights.

    Only matrix products count, a multiplication and an addition as two operations. This is the
    convention of DeepBench for recurrent layers (`8·h·(x + h)` for an LSTM's step) and of "model
    FLOPs" in the PaLM report (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Activations of
    gates, embeddings and losses are left out. Recomputation never counts, so the figure depends on
    the model and not on its implementation.
    """
    stack = read_canonical(model)
    products = steps * sum(layer.kernel.size + layer.recurrent_kernel.size for layer in stack)
    for layer in model.layers:
        if isinstance(layer, keras.layers.Dense):
            products += math.prod(layer.kernel.shape) * math.prod(layer.output.shape[1:-1])
    return 2 * products


def training_flops(forward: int) -> int:
    """Return the FLOPs of forward and backward pass together, from those of the forward pass.

    The backward pass has two products for every product of the forward pass: by the inputs and by
    the weights (Kaplan et al. 2020, arXiv 2001.08361, section 2.1).
    """
    return 3 * forward


def _keras_layer(
    settings: StackSettings,
    implementation: Implementation,
    index: int,
    return_sequences: bool,
    seed: int,
) -> Any:
    """Return one of Keras' own layers, bidirectional if the settings are.

    `use_cudnn` is always True or False, also inside Bidirectional: "auto" falls back silently.
    """
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
        has_relu = "relu" in implementation.options
        arguments["activation"] = "relu" if has_relu else settings.activation
        arguments["recurrent_activation"] = settings.recurrent_activation
        arguments["use_cudnn"] = implementation.kernel == "cudnn"
    name, make = f"recurrent_{index}", _GATED.get(settings.cell, keras.layers.SimpleRNN)
    forward = make(settings.units, name=name, seed=seed % _SEEDS, **arguments)
    if not settings.bidirectional:
        return forward
    arguments |= {"seed": (seed + 1) % _SEEDS, "go_backwards": True}
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


def _read(cell: Any) -> CanonicalLayer:
    return CanonicalLayer(
        keras.ops.convert_to_numpy(cell.kernel),
        keras.ops.convert_to_numpy(cell.recurrent_kernel),
        keras.ops.convert_to_numpy(cell.bias) if cell.use_bias else None,
    )


def _write(cell: Any, layer: CanonicalLayer) -> None:
    cell.kernel.assign(layer.kernel)
    cell.recurrent_kernel.assign(layer.recurrent_kernel)
    if layer.bias is not None:
        cell.bias.assign(layer.bias)
