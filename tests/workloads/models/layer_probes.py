"""Workloads for the tests of layers and weights, which compare implementations in one trainer.

They run inside a warm trainer and return numbers, or store an artifact, for the test to check.
"""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np
from pydantic import BaseModel

from tests.gpu import probes
from workloads.context import Context
from workloads.implementations import Implementation, parse_implementation
from workloads.models.canonical_weights import CanonicalLayer
from workloads.settings import StackSettings


class StatefulSettings(StackSettings):
    """Settings of a stack that keeps its states from batch to batch."""

    @property
    def stateful(self) -> bool:
        return True


class Case(BaseModel):
    """A request of a test."""

    cell: str = "lstm"
    inputs: int = 3
    units: int = 4
    layers: int = 1
    bidirectional: bool = False
    dropout: float = 0.0
    return_sequences: bool = False
    stateful: bool = False
    batch: int = 3
    steps: int = 4

    @property
    def stack(self) -> StackSettings:
        own = self.model_dump(include={"cell", "units", "layers", "bidirectional", "dropout"})
        return (StatefulSettings if self.stateful else StackSettings)(**own)


def numbers(trial: Context) -> dict[str, float]:
    """Compare with the reference in float64, in place of cuDNN on a CPU where there is none."""
    with _on_a_cpu(trial):
        return probes.numbers(trial)


def initial_weights(trial: Context) -> dict[str, float]:
    """Return a digest of the initial weights in their canonical layout."""
    keras, case = _keras(trial.implementation), Case(**trial.settings)
    from workloads.models.initial_weights import set_initial_weights
    from workloads.models.layers import read_canonical, recurrent_stack

    stack = recurrent_stack(case.stack, trial.implementation, return_sequences=False, seed=1)
    embedding = keras.layers.Embedding(5, case.inputs, name="embedding")
    dense = keras.layers.Dense(2, name="classes")
    model = keras.Sequential([keras.Input((case.steps,)), embedding, *stack, dense])
    set_initial_weights(model, trial.seed)
    others = [*embedding.trainable_variables, *dense.trainable_variables]
    arrays = [array for layer in read_canonical(model) for array in layer]
    arrays += [_array(variable) for variable in others]
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return {
        "digest": float(int.from_bytes(hashlib.sha256(content).digest()[:6])),
        "arrays": float(len(arrays)),
        "zeros": float(sum(array is not None and not array.any() for array in arrays)),
    }


def statefulness(trial: Context) -> dict[str, float]:
    """Return the differences between a long sequence and its two halves with kept states.

    `again` is the first half's difference after a reset of the states, `kept` without a reset.
    """
    from workloads.models.run import reset_states

    case = Case(**trial.settings, return_sequences=True)
    draw = np.random.default_rng(trial.seed)
    halves = case.model_copy(update={"steps": case.steps // 2, "stateful": True})
    long, parts = _models_of_one_start(case, _portable(trial), trial.implementation, draw, halves)
    inputs = _normal(draw, case.batch, case.steps, case.inputs)
    first, second = np.split(inputs, 2, axis=1)
    with _on_a_cpu(trial):
        outputs = [_array(parts(half)) for half in (first, second, first)]
        reset_states(parts)
        after_reset = _array(parts(first))
    return {
        "parts": _difference(_array(long(inputs)), np.concatenate(outputs[:2], axis=1)),
        "again": _difference(after_reset, outputs[0]),
        "kept": _difference(outputs[2], outputs[0]),
    }


def dropout(trial: Context) -> dict[str, float]:
    """Return the differences between two calls in training, and two in inference."""
    from workloads.models.initial_weights import set_initial_weights

    model = _model(Case(**trial.settings), trial.implementation)
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


def graph(trial: Context) -> dict[str, float]:
    """Store the CuDNN nodes of a traced TensorFlow train step, which no CPU can run."""
    import tensorflow as tf

    case = Case(**trial.settings)
    model = _model(case, trial.implementation)

    def step(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(inputs, training=True))
        return tape.gradient(loss, model.trainable_variables)

    batch = tf.TensorSpec((None, case.steps, case.inputs), tf.float32)
    operations = tf.function(step).get_concrete_function(batch).graph.get_operations()
    names = ("rnn_mode", "direction", "dropout", "seed", "time_major")
    nodes = [
        {"name": op.name, "type": op.type, "dtype": op.inputs[0].dtype.name}
        | {name: _plain(op.get_attr(name)) for name in names}
        for op in operations
        if op.type.startswith("Cudnn")
    ]
    trial.artifact("nodes.json", json.dumps(nodes))
    return {}


def activations(trial: Context) -> dict[str, float]:
    """Store the names of the activations of Keras' layers in `recurrent_stack`."""
    _keras(trial.implementation)
    from workloads.models.layers import recurrent_stack

    case = Case(**trial.settings)
    layers = recurrent_stack(case.stack, trial.implementation, return_sequences=False, seed=1)
    trial.artifact("names.json", json.dumps([layer.activation.__name__ for layer in layers]))
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
    batch = case.batch if case.stateful else None
    inputs = keras.Input(batch_shape=(batch, case.steps, case.inputs))
    return keras.Sequential([inputs, *layers])


def _models_of_one_start(
    case: Case,
    first: Implementation,
    second: Implementation,
    draw: np.random.Generator,
    second_case: Case | None = None,
) -> list[Any]:
    """Return models of both implementations with the same random weights."""
    models = [_model(case, first), _model(second_case or case, second)]
    from workloads.models.layers import read_canonical, write_canonical

    stack = [
        CanonicalLayer(*(_normal(draw, *array.shape) / 2 for array in layer if array is not None))
        for layer in read_canonical(models[0])
    ]
    for model in models:
        write_canonical(model, stack)
    return models


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
    is_jax = trial.implementation.backend == "jax" and trial.implementation.kernel == "fused"
    return _jax_reference() if is_jax else nullcontext()


def _portable(trial: Context) -> Implementation:
    return parse_implementation(f"{trial.implementation.backend}/portable")


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
