"""Workloads for the tests of layers and weights, which compare implementations in one trainer.

They run inside a warm trainer and return numbers, or store an artifact, for the test to check.
"""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from pydantic import BaseModel

from workloads.context import Context
from workloads.implementations import Implementation, parse_implementation
from workloads.models.canonical_weights import CanonicalLayer, StackShape
from workloads.settings.recurrent import StackSettings


class StatefulSettings(StackSettings):
    """Settings of a stack that keeps its states from batch to batch."""

    @property
    def stateful(self) -> bool:
        return True


class Case(BaseModel):
    """A request of a test; `lengths` for sequences that are padded on the right."""

    cell: str = "lstm"
    inputs: int = 3
    units: int = 4
    layers: int = 1
    bidirectional: bool = False
    return_sequences: bool = False
    stateful: bool = False
    use_bias: bool = True
    dropout: float = 0.0
    batch: int = 3
    steps: int = 4
    lengths: list[int] | None = None

    @property
    def stack(self) -> StackSettings:
        own = self.model_dump(
            include={"cell", "units", "layers", "bidirectional", "dropout", "use_bias"}
        )
        return (StatefulSettings if self.stateful else StackSettings)(**own)

    @property
    def fixed_batch(self) -> int | None:
        """The batch size of the model's input; a stateful stack needs one."""
        return self.batch if self.stateful else None

    @property
    def counts(self) -> Any:
        """Shape (batch, steps, 1): 1 for every step that is not padding."""
        lengths = np.array(self.lengths or [self.steps] * self.batch)
        return (np.arange(self.steps) < lengths[:, None]).astype("float32")[..., None]


@dataclass(frozen=True)
class Pass:
    """Arrays of a forward and backward pass."""

    outputs: Any
    by_inputs: Any
    by_stack: list[CanonicalLayer]
    holds: bool


def buffer_as_jax_reads_it(trial: Context) -> dict[str, float]:
    """Count differences between our buffer and the one that `jax.experimental.rnn` unpacks."""
    from jax.experimental import rnn

    shape = StackShape("lstm", **trial.settings)
    sizes = (shape.inputs, shape.units, shape.layers, shape.bidirectional)
    buffer = np.arange(sum(shape.sizes), dtype=np.float32)
    pieces = np.split(buffer, np.cumsum(shape.sizes)[:-1])
    unpacked = rnn.unpack_lstm_weights(buffer, *sizes)
    matrices = [kind[n] for n in range(shape.pseudo_layers) for kind in unpacked[:2]]
    biases = [kind[n] for n in range(shape.pseudo_layers) for kind in unpacked[2:]]
    different = sum(
        int((piece != np.ravel(other)).sum())
        for piece, other in zip(pieces, [*matrices, *biases], strict=True)
    )
    length = rnn.get_num_params_in_lstm(*sizes)
    return {"different": float(different), "length_difference": float(length - buffer.size)}


def agreement(trial: Context) -> dict[str, float]:
    """Return the largest differences between the portable layers and the requested implementation.

    The differences are those of outputs and of gradients by inputs and weights, relative to the
    largest value. `holds` is 1 if the gradients of untrained biases are exactly zero.
    """
    case = Case(**trial.settings)
    draw = np.random.default_rng(trial.seed)
    inputs = _normal(draw, case.batch, case.steps, case.inputs) * case.counts
    width = case.units * (2 if case.bidirectional else 1)
    direction = _normal(draw, case.batch, *([case.steps] * case.return_sequences), width)
    if case.return_sequences:
        direction = direction * case.counts
    portable = _model(case, _portable(trial))
    tested = _model(case, trial.implementation)
    from workloads.models.layers import read_canonical, write_canonical

    stack = [_random(layer, draw) for layer in read_canonical(portable)]
    write_canonical(portable, stack)
    write_canonical(tested, stack)
    expected_pass = _pass(trial, portable, inputs, direction)
    with _on_a_cpu(trial):
        actual_pass = _pass(trial, tested, inputs, direction)
    counts = case.counts if case.return_sequences else 1
    pairs = list(zip(expected_pass.by_stack, actual_pass.by_stack, strict=True))
    return {
        "outputs": _difference(expected_pass.outputs * counts, actual_pass.outputs * counts),
        "inputs": _difference(expected_pass.by_inputs, actual_pass.by_inputs),
        "kernel": max(_difference(a.kernel, b.kernel) for a, b in pairs),
        "recurrent_kernel": max(
            _difference(a.recurrent_kernel, b.recurrent_kernel) for a, b in pairs
        ),
        "bias": max(_difference(a.bias, b.bias) for a, b in pairs),
        "holds": float(actual_pass.holds),
        "padding": float(np.abs(actual_pass.outputs * (1 - counts)).max()),
    }


def initial_weights(trial: Context) -> dict[str, float]:
    """Return a digest of the initial weights in their canonical layout."""
    keras = _keras(trial.implementation)
    from workloads.models.initial_weights import set_initial_weights
    from workloads.models.layers import read_canonical, recurrent_stack

    case = Case(**trial.settings)
    layers = recurrent_stack(case.stack, trial.implementation, return_sequences=False, seed=1)
    model = keras.Sequential(
        [
            keras.Input((case.steps,)),
            keras.layers.Embedding(5, case.inputs, name="embedding"),
            *layers,
            keras.layers.Dense(2, name="classes"),
        ]
    )
    set_initial_weights(model, trial.seed)
    stack = read_canonical(model)
    arrays = [a for layer in stack for a in (layer.kernel, layer.recurrent_kernel, layer.bias)]
    arrays += [keras.ops.convert_to_numpy(model.layers[0].embeddings)]
    arrays += [keras.ops.convert_to_numpy(v) for v in model.layers[-1].trainable_variables]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return {
        "digest": float(int.from_bytes(digest.digest()[:6])),
        "arrays": float(len(arrays)),
        "zeros": float(sum(a is not None and not a.any() for a in arrays)),
    }


def round_trip(trial: Context) -> dict[str, float]:
    """Return 1 if random weights are read back exactly after they were written into a model."""
    from workloads.models.layers import read_canonical, write_canonical

    model = _model(Case(**trial.settings), trial.implementation)
    draw = np.random.default_rng(trial.seed)
    stack = [_random(layer, draw) for layer in read_canonical(model)]
    write_canonical(model, stack)
    arrays = [
        (a, b)
        for written_layer, read_layer in zip(stack, read_canonical(model), strict=True)
        for a, b in zip(_arrays(written_layer), _arrays(read_layer), strict=True)
    ]
    return {"layers": float(len(stack)), "equal": float(all((a == b).all() for a, b in arrays))}


def write_other_sizes(trial: Context) -> dict[str, float]:
    """Write a stack of other sizes into a model, which must fail."""
    from workloads.models.layers import read_canonical, write_canonical

    model = _model(Case(**trial.settings["model"]), trial.implementation)
    other = _model(Case(**trial.settings["stack"]), trial.implementation)
    write_canonical(model, read_canonical(other))
    return {}


def statefulness(trial: Context) -> dict[str, float]:
    """Return the differences between a long sequence and its two halves with kept states.

    `again` is the first half's difference after a reset of the states, `kept` without a reset.
    """
    from workloads.models.layers import read_canonical, write_canonical

    case = Case(**trial.settings, return_sequences=True, stateful=True)
    long = _model(case.model_copy(update={"stateful": False}), _portable(trial))
    parts = _model(case.model_copy(update={"steps": case.steps // 2}), trial.implementation)
    draw = np.random.default_rng(trial.seed)
    stack = [_random(layer, draw) for layer in read_canonical(long)]
    write_canonical(long, stack)
    write_canonical(parts, stack)
    inputs = _normal(draw, case.batch, case.steps, case.inputs)
    first, second = np.split(inputs, 2, axis=1)
    long_outputs = _array(long(inputs))
    with _on_a_cpu(trial):
        halves = [_array(parts(half)) for half in (first, second)]
        without_reset = _array(parts(first))
        for layer in parts.layers:
            if hasattr(layer, "reset_state"):
                layer.reset_state()
        after_reset = _array(parts(first))
    return {
        "parts": _difference(long_outputs, np.concatenate(halves, axis=1)),
        "again": _difference(after_reset, halves[0]),
        "kept": _difference(without_reset, halves[0]),
        "states": float(len(parts.non_trainable_variables)),
    }


def dropout(trial: Context) -> dict[str, float]:
    """Return the differences between two calls in training, and two in inference."""
    model = _model(Case(**trial.settings), trial.implementation)
    from workloads.models.initial_weights import set_initial_weights

    set_initial_weights(model, trial.seed)
    inputs = _normal(np.random.default_rng(trial.seed), 3, 4, 3)
    calls = {
        mode: [_array(model(inputs, training=mode)) for _ in range(2)] for mode in (True, False)
    }
    return {
        "training": _difference(*calls[True]),
        "inference": _difference(*calls[False]),
        "between": _difference(calls[True][0], calls[False][0]),
    }


def fitted(trial: Context) -> dict[str, float]:
    """Return the final losses of portable and requested layers after equal epochs of Adam."""
    losses = {}
    for name, implementation in (("portable", _portable(trial)), ("asked", trial.implementation)):
        model = _classifier(Case(**trial.settings), implementation, trial.seed)
        draw = np.random.default_rng(trial.seed)
        words = draw.integers(1, 9, (32, 6))
        words[:, 4:] *= draw.integers(0, 2, (32, 1))  # some sequences are shorter
        history = model.fit(
            words, words[:, 0] % 2, epochs=4, batch_size=8, verbose=0, shuffle=False
        )
        losses[name] = history.history["loss"][-1]
    return losses


def mixed(trial: Context) -> dict[str, float]:
    """Return the difference of a stateful stack from one in float32, for the first two batches.

    The variables must be float32, the outputs must not.
    """
    import keras

    from workloads.models.initial_weights import set_initial_weights

    case = Case(**trial.settings, return_sequences=True, stateful=True)
    inputs = _normal(np.random.default_rng(trial.seed), case.batch, case.steps, case.inputs)
    outputs = []
    for implementation in (parse_implementation("torch/fused"), trial.implementation):
        model = _model(case, implementation)
        set_initial_weights(model, trial.seed)
        outputs.append([model(inputs) for _ in range(2)])
    assert keras.backend.standardize_dtype(outputs[1][0].dtype) != "float32"
    assert {variable.dtype for variable in model.variables} == {"float32"}
    full, low = ([_array(output) for output in pair] for pair in outputs)
    return {"first": _difference(full[0], low[0]), "second": _difference(full[1], low[1])}


def padded_left(trial: Context) -> dict[str, float]:
    """Use a mask that pads on the left: fails, or returns NaN in a compiled program."""
    model = _model(Case(**trial.settings), trial.implementation)
    with _on_a_cpu(trial):
        outputs = model.layers[0](np.ones((2, 4, 3), "float32"), mask=left_mask())
    return {"finite": float(np.isfinite(_array(outputs)).all())}


def open_batch(trial: Context) -> dict[str, float]:
    """Build a stack in a model without a fixed batch size."""
    keras = _keras(trial.implementation)
    from workloads.models.layers import recurrent_stack

    stack = Case(**trial.settings).stack
    layers = recurrent_stack(stack, trial.implementation, return_sequences=False, seed=1)
    keras.Sequential([keras.Input((4, 3)), *layers])
    return {}


def left_mask() -> Any:
    """Return the mask of two sequences; the second is padded on the left."""
    import keras

    return keras.ops.convert_to_tensor(np.array([[True] * 4, [False, True, True, True]]))


def graph(trial: Context) -> dict[str, float]:
    """Store the CuDNN nodes of a traced TensorFlow train step, which no CPU can run."""
    import tensorflow as tf

    case = Case(**trial.settings)
    model = _model(case, trial.implementation)

    def step(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(inputs, training=True))
        return tape.gradient(loss, model.trainable_variables)

    traced = tf.function(step).get_concrete_function(
        tf.TensorSpec((case.fixed_batch, case.steps, case.inputs), tf.float32)
    )
    nodes = [op for op in traced.graph.get_operations() if op.type.startswith("Cudnn")]
    names = ("rnn_mode", "direction", "dropout", "seed", "time_major")
    nodes_found = [
        {"name": op.name, "type": op.type, "dtype": op.inputs[0].dtype.name}
        | {name: _plain(op.get_attr(name)) for name in names}
        for op in nodes
    ]
    trial.artifact("nodes.json", json.dumps(nodes_found))
    (gradient,) = traced.structured_outputs
    return {"gradient_length": float(gradient.shape[0])}


def program(trial: Context) -> dict[str, float]:
    """Store the cuDNN primitives of JAX's train step, which JAX on a CPU can only trace."""
    import jax
    from jax.experimental import rnn

    case = Case(**trial.settings)
    model = _model(case, trial.implementation)
    inputs = np.zeros((case.batch, case.steps, case.inputs), "float32")
    others = [variable.value for variable in model.non_trainable_variables]

    def loss(trainable: Any) -> Any:
        return model.stateless_call(trainable, others, inputs, training=True)[0].sum()

    with mock.patch.object(
        rnn.gpu_rnn, "compute_rnn_workspace_reserve_space_sizes", create=True, return_value=(1, 1)
    ):
        traced = jax.make_jaxpr(jax.grad(loss))([v.value for v in model.trainable_variables])
    nodes = [
        {"name": f"{equation.source_info.name_stack}", "type": equation.primitive.name}
        | {key: value for key, value in equation.params.items() if isinstance(value, int)}
        for equation in traced.eqns
        if equation.primitive.name.startswith("rnn_")
    ]
    trial.artifact("nodes.json", json.dumps(nodes))
    return {}


def structure(trial: Context) -> dict[str, float]:
    """Store a description of the layers of `recurrent_stack`."""
    _keras(trial.implementation)
    from workloads.models.layers import recurrent_stack

    case = Case(**trial.settings)
    layers = recurrent_stack(
        case.stack, trial.implementation, return_sequences=case.return_sequences, seed=trial.seed
    )
    inner = [
        direction
        for layer in layers
        for direction in (
            getattr(layer, "forward_layer", layer),
            getattr(layer, "backward_layer", None),
        )
        if direction is not None
    ]
    names = ("name", "return_sequences", "use_cudnn", "unroll", "stateful", "go_backwards", "rate")
    descriptions = [
        {"type": type(layer).__name__, "seed": getattr(layer, "cell", layer).seed}
        | {name: getattr(layer, name) for name in names if hasattr(layer, name)}
        | ({"activation": layer.activation.__name__} if hasattr(layer, "activation") else {})
        for layer in inner
    ]
    trial.artifact(
        "layers.json", json.dumps({"names": [x.name for x in layers], "layers": descriptions})
    )
    return {}


def _keras(implementation: Implementation) -> Any:
    """Configure the framework for an implementation, and return Keras."""
    import keras

    from workloads.frameworks import load_framework

    load_framework(implementation.backend).configure(implementation, "cpu")
    return keras


def _model(case: Case, implementation: Implementation) -> Any:
    keras = _keras(implementation)
    from workloads.models.layers import recurrent_stack

    layers = recurrent_stack(
        case.stack, implementation, return_sequences=case.return_sequences, seed=1
    )
    masking = [keras.layers.Masking()] if case.lengths else []
    inputs = keras.Input(batch_shape=(case.fixed_batch, case.steps, case.inputs))
    return keras.Sequential([inputs, *masking, *layers])


def _classifier(case: Case, implementation: Implementation, seed: int) -> Any:
    keras = _keras(implementation)
    from workloads.models.initial_weights import set_initial_weights
    from workloads.models.layers import recurrent_stack

    model = keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            keras.layers.Embedding(9, case.inputs, mask_zero=True, name="embedding"),
            *recurrent_stack(case.stack, implementation, return_sequences=False, seed=1),
            keras.layers.Dense(2, activation="softmax", name="classes"),
        ]
    )
    set_initial_weights(model, seed)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", jit_compile=False)
    return model


def _pass(trial: Context, model: Any, inputs: Any, direction: Any) -> Pass:
    """Compute outputs, and the gradients of their product with `direction`."""
    from workloads.models.fused.fused_stack import FusedStack
    from workloads.models.layers import read_canonical

    differentiate = _torch_gradients if trial.implementation.backend == "torch" else _jax_gradients
    outputs, by_inputs, gradients = differentiate(model, inputs, direction)
    holds = True
    for layer in model.layers:
        if isinstance(layer, FusedStack) and layer.stack_shape.trained_biases is not None:
            biases = gradients[0][layer.stack_shape.matrices_size :]
            holds = not biases[~layer.stack_shape.trained_biases].any()
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        variable.assign(gradient)  # so that they can be read like weights
    return Pass(outputs, by_inputs, read_canonical(model), holds)


def _torch_gradients(model: Any, inputs: Any, direction: Any) -> tuple[Any, Any, list[Any]]:
    import torch

    tensor = torch.tensor(inputs, requires_grad=True)
    outputs = model(tensor, training=True)
    (outputs * torch.tensor(direction)).sum().backward()
    assert tensor.grad is not None
    gradients = [variable.value.grad.numpy() for variable in model.trainable_variables]
    return outputs.detach().numpy(), tensor.grad.numpy(), gradients


def _jax_gradients(model: Any, inputs: Any, direction: Any) -> tuple[Any, Any, list[Any]]:
    import jax

    others = [variable.value for variable in model.non_trainable_variables]

    def product(trainable: Any, batch: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, others, batch, training=True)
        return (outputs * direction).sum(), outputs

    trainable = [variable.value for variable in model.trainable_variables]
    differentiate = jax.jit(jax.value_and_grad(product, (0, 1), has_aux=True))
    (_, outputs), (by_weights, by_inputs) = differentiate(trainable, inputs)
    return np.array(outputs), np.array(by_inputs), [np.array(gradient) for gradient in by_weights]


@contextmanager
def _jax_reference() -> Iterator[None]:
    """Replace JAX's cuDNN call by its reference LSTM with the same arguments and results."""
    from jax.experimental import rnn

    def plain(x: Any, h: Any, c: Any, weights: Any, lengths: Any, *options: Any) -> Any:
        inputs, units, layers, dropout, bidirectional, _ = options
        unpacked = rnn.unpack_lstm_weights(weights, inputs, units, layers, bidirectional)
        return rnn.lstm_ref(
            x, h, c, *unpacked, lengths, inputs, units, layers, dropout, bidirectional
        )

    with mock.patch.object(rnn, "lstm", plain):
        yield


def _on_a_cpu(trial: Context) -> Any:
    return _jax_reference() if trial.implementation.backend == "jax" else nullcontext()


def _portable(trial: Context) -> Implementation:
    return parse_implementation(f"{trial.implementation.backend}/portable")


def _random(layer: CanonicalLayer, draw: np.random.Generator) -> CanonicalLayer:
    bias = None if layer.bias is None else _normal(draw, *layer.bias.shape) / 2
    return CanonicalLayer(
        _normal(draw, *layer.kernel.shape) / 2,
        _normal(draw, *layer.recurrent_kernel.shape) / 2,
        bias,
    )


def _arrays(layer: CanonicalLayer) -> list[Any]:
    return [a for a in (layer.kernel, layer.recurrent_kernel, layer.bias) if a is not None]


def _normal(draw: np.random.Generator, *shape: int) -> Any:
    return draw.standard_normal(shape).astype(np.float32)


def _difference(first: Any, second: Any) -> float:
    """Return the largest difference, relative to the largest value."""
    assert first.shape == second.shape
    return float(np.abs(first - second).max() / max(np.abs(first).max(), 1e-30))


def _array(tensor: Any) -> Any:
    import keras

    return np.array(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
