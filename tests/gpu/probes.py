"""Workloads for the checks of a GPU, which compute inside a trainer process.

Each returns differences as numbers, so that a check receives no arrays.
"""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from pydantic import BaseModel

from tests.gpu.reference import run_stack
from workloads.context import Context
from workloads.measuring.measurement import prepare_framework
from workloads.models.canonical_weights import CanonicalLayer, to_buffer
from workloads.settings import StackSettings


class Case(BaseModel):
    """A stack and its input, with `lengths` if the sequences are padded on the right."""

    cell: str = "lstm"
    inputs: int = 16
    units: int = 32
    layers: int = 1
    bidirectional: bool = False
    batch: int = 8
    steps: int = 12
    lengths: list[int] | None = None

    @property
    def stack(self) -> StackSettings:
        return StackSettings(
            **self.model_dump(include={"cell", "units", "layers", "bidirectional"})
        )


def presence(trial: Context) -> dict[str, float]:
    """Start a trial and do nothing; it fails if the framework does not see the device."""
    with prepare_framework(trial):
        return {}


def hidden(trial: Context) -> dict[str, float]:
    """Simulate a GPU trial while GPUs are hidden from JAX, whose plugin then raises."""
    import jax

    message = "Unable to initialize backend 'cuda': No visible GPU devices."
    with mock.patch.object(jax, "default_backend", side_effect=RuntimeError(message)):
        return presence(replace(trial, device="gpu"))


def numbers(trial: Context) -> dict[str, float]:
    """Return the largest differences from the float64 reference, relative to the largest values.

    They cover unpadded outputs, last outputs, and the gradients by inputs and weights.
    """
    case = Case(**trial.settings)
    with prepare_framework(trial):
        model = _model(case, trial, return_sequences=True)
        short = _model(case, trial, return_sequences=False)
        from workloads.models.layers import read_canonical, write_canonical

        draw = np.random.default_rng(trial.seed)
        counts = _counts(case)
        inputs = _normal(draw, case.batch, case.steps, case.inputs) * counts
        width = case.units * (2 if case.bidirectional else 1)
        towards = _normal(draw, case.batch, case.steps, width) * counts
        stack = _weights(read_canonical(model), trial.seed)
        for network in (model, short):
            write_canonical(network, stack)
        expected = run_stack(
            case.stack.cell, stack, inputs, towards, case.lengths, bidirectional=case.bidirectional
        )
        outputs, by_inputs, by_weights = differentiate(model, inputs, towards)
        last = _as_array(short(inputs))
        for variable, gradient in zip(model.trainable_variables, by_weights, strict=True):
            variable.assign(gradient)  # so that `read_canonical` can read them
        by_stack = read_canonical(model)
    return {
        "outputs": _difference(expected.outputs, outputs * counts),
        "last": _difference(expected.last, last),
        "by_inputs": _difference(expected.by_inputs, by_inputs),
        **{
            f"by_{role}": max(
                _difference(getattr(ours, role), getattr(theirs, role))
                for ours, theirs in zip(expected.by_stack, by_stack, strict=True)
            )
            for role in ("kernel", "recurrent_kernel", "bias")
        },
    }


def layout(trial: Context) -> dict[str, float]:
    """Count the numbers of our buffer that TensorFlow's own op puts elsewhere.

    The op takes cuDNN's canonical matrices and biases. For each layer and direction, those of the
    inputs come first, gate by gate, then those of the state.
    """
    import tensorflow as tf

    case = Case(**trial.settings)
    with prepare_framework(trial):
        from workloads.models.layers import read_canonical

        stack = _numbered(read_canonical(_model(case, trial, return_sequences=True)))
        pieces = [_gate_by_gate(layer) for layer in stack]
        theirs = tf.raw_ops.CudnnRNNCanonicalToParamsV2(
            num_layers=case.layers,
            num_units=case.units,
            input_size=case.inputs,
            weights=[tf.constant(matrix) for matrices, _ in pieces for matrix in matrices],
            biases=[tf.constant(bias) for _, biases in pieces for bias in biases],
            rnn_mode=case.cell,
            input_mode="linear_input",
            direction="bidirectional" if case.bidirectional else "unidirectional",
        ).numpy()
    ours = to_buffer(stack)
    return {
        "length_difference": float(theirs.size - ours.size),
        "different": float((theirs != ours).sum()) if theirs.size == ours.size else float("1e9"),
        "numbers": float(ours.size),
    }


def _model(case: Case, trial: Context, *, return_sequences: bool) -> Any:
    import keras

    from workloads.models.layers import recurrent_stack

    layers = recurrent_stack(
        case.stack, trial.implementation, return_sequences=return_sequences, seed=1
    )
    masking = [keras.layers.Masking()] if case.lengths else []
    inputs = keras.Input(batch_shape=(case.batch, case.steps, case.inputs))
    return keras.Sequential([inputs, *masking, *layers])


def _weights(like: list[CanonicalLayer], seed: int) -> list[CanonicalLayer]:
    """Return a trial's initial weights, with biases other than zero."""
    from workloads.models.initial_weights import draw_layer

    draw = np.random.default_rng(seed)
    layers = [draw_layer(f"recurrent_{n}", layer, seed) for n, layer in enumerate(like)]
    for layer in layers:
        assert layer.bias is not None
        layer.bias[...] = draw.uniform(-0.5, 0.5, layer.bias.shape)
    return layers


def _numbered(like: list[CanonicalLayer]) -> list[CanonicalLayer]:
    """Return layers of these shapes in which every number is different; second biases are zero."""
    sizes = [int(np.prod(shape)) for layer in like for shape in layer.shapes if shape]
    numbers = iter(np.split(np.arange(1.0, 1 + sum(sizes), dtype="float32"), np.cumsum(sizes)))
    return [
        CanonicalLayer(*(next(numbers).reshape(shape) for shape in layer.shapes if shape))
        for layer in like
    ]


def _gate_by_gate(layer: CanonicalLayer) -> tuple[list[Any], list[Any]]:
    """Return the layer's matrices (units, inputs) and biases, one per gate, in cuDNN's order.

    The order of gates is i, f, candidate, o for an LSTM, and r, z, candidate for a GRU.
    """
    order = [1, 0, 2] if layer.gates == 3 else list(range(layer.gates))
    assert layer.bias is not None
    biases = [*layer.bias] if layer.gates == 3 else [layer.bias, np.zeros_like(layer.bias)]
    matrices = [
        np.ascontiguousarray(np.split(weights, layer.gates, axis=-1)[gate].T)
        for weights in (layer.kernel, layer.recurrent_kernel)
        for gate in order
    ]
    return matrices, [np.split(bias, layer.gates)[gate] for bias in biases for gate in order]


def _counts(case: Case) -> Any:
    """Return an array (batch, steps, 1) with 1 for steps that are not padding."""
    lengths = np.array(case.lengths or [case.steps] * case.batch)
    return (np.arange(case.steps) < lengths[:, None]).astype("float32")[..., None]


def _normal(draw: np.random.Generator, *shape: int) -> Any:
    return draw.standard_normal(shape).astype(np.float32)


def _difference(expected: Any, received: Any) -> float:
    assert expected.shape == received.shape, (expected.shape, received.shape)
    return float(np.abs(expected - received).max() / max(np.abs(expected).max(), 1e-30))


def differentiate(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    """Return outputs, and the gradients of `(outputs * towards).sum()` by inputs and weights."""
    import keras

    backend = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    outputs, by_inputs, by_weights = backend(model, inputs, towards)
    return (
        _as_array(outputs),
        _as_array(by_inputs),
        [_as_array(gradient) for gradient in by_weights],
    )


def _as_array(tensor: Any) -> Any:
    """Convert a tensor of any backend and precision to a float32 array."""
    import keras

    return np.array(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")))


def _tensorflow(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    import tensorflow as tf

    def differentiate(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.cast(model(inputs, training=True), tf.float32)
            product = tf.reduce_sum(outputs * towards)
        weights = [variable.value for variable in model.trainable_variables]
        return outputs, tape.gradient(product, [inputs, *weights])

    differentiated = tf.function(differentiate, jit_compile=False)
    outputs, (by_inputs, *by_weights) = differentiated(tf.constant(inputs))
    return outputs, by_inputs, by_weights


def _jax(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    import jax
    import jax.numpy as jnp

    others = [variable.value for variable in model.non_trainable_variables]

    def product(trainable: Any, inputs: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, others, inputs, training=True)
        outputs = outputs.astype(jnp.float32)
        return (outputs * towards).sum(), outputs

    trainable = [variable.value for variable in model.trainable_variables]
    differentiate = jax.jit(jax.value_and_grad(product, (0, 1), has_aux=True))
    (_, outputs), (by_weights, by_inputs) = differentiate(trainable, jnp.asarray(inputs))
    return outputs, by_inputs, by_weights


def _torch(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    import torch

    weights = [variable.value for variable in model.trainable_variables]
    variable = torch.tensor(inputs, device=weights[0].device, requires_grad=True)
    outputs = model(variable, training=True).float()
    product = (outputs * torch.tensor(towards, device=outputs.device)).sum()
    by_inputs, *by_weights = torch.autograd.grad(product, [variable, *weights])
    return outputs.detach(), by_inputs, by_weights
