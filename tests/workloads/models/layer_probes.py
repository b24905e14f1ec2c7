"""Workloads for the tests of layers and weights, which compare implementations in one trainer."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import itertools
import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

from tests.building import recurrent_reference
from tests.building.recurrent_reference import as_array, difference, normal, run_stack
from workloads.backends.stack_call import GATES
from workloads.context import Context
from workloads.implementations import Implementation, parse_implementation
from workloads.settings import StackSettings


class StatefulSettings(StackSettings):
    @property
    def stateful(self) -> bool:
        return True


class Case(recurrent_reference.Case):
    inputs: int = 3
    units: int = 4
    batch: int = 3
    steps: int = 4
    dropout: float = 0.0
    stateful: bool = False

    @property
    def stack(self) -> StackSettings:
        kind = StatefulSettings if self.stateful else StackSettings
        return kind(**super().stack.model_dump() | {"dropout": self.dropout})


def numbers(trial: Context) -> dict[str, float]:
    """Compare with the reference in float64, in place of cuDNN on a CPU where there is none."""
    with _on_a_cpu(trial.implementation):
        return recurrent_reference.numbers(trial)


def tensorflow_on_cudnn(trial: Context) -> dict[str, float]:
    """Compare last outputs with the reference over two batches, for every kind of stack."""
    import tensorflow as tf

    from tests.workloads.stand_in_gpus.tensorflow import cudnn_rnn_v3
    from workloads.models.layers import read_canonical

    draw, errors = np.random.default_rng(trial.seed), {}
    masks: list[Any] = [{}, {"lengths": [4, 2, 1]}, {"stateful": True}]
    kinds = itertools.product(GATES, (1, 3), (False, True), masks)
    with mock.patch.object(tf.raw_ops, "CudnnRNNV3", cudnn_rnn_v3):
        for cell, layers, both, mask in kinds:
            case = Case(cell=cell, layers=layers, bidirectional=both, **mask)
            model = _model(case, trial.implementation, return_sequences=False)
            stack, shape, states = read_canonical(model), case.stack, None
            for batch in range(2):
                inputs = normal(draw, case.batch, case.steps, case.inputs) * case.counts
                where = case.counts, shape.directions, states
                _, last, finals = run_stack(shape.cell, stack, inputs, *where)
                states = finals if case.stateful else None
                errors[f"{case} {batch}"] = difference(last, as_array(model(inputs)))
    return {"worst": max(errors.values()), "batches": len(errors)}


def statefulness(trial: Context) -> dict[str, float]:
    """Return the differences between a long sequence and its two halves with kept states."""
    # `again` is the first half's difference after a reset of the states, `kept` without a reset.
    from workloads.models.layers import reset_states

    case = Case(**trial.settings)
    halves = case.model_copy(update={"steps": case.steps // 2, "stateful": True})
    portable = parse_implementation(f"{trial.implementation.backend}/portable")
    long, parts = _model(case, portable), _model(halves, trial.implementation)
    inputs = normal(np.random.default_rng(trial.seed), case.batch, case.steps, case.inputs)
    first, second = np.split(inputs, 2, axis=1)
    with _on_a_cpu(trial.implementation):
        outputs = [as_array(parts(half)) for half in (first, second, first)]
        reset_states(parts)
        after_reset = as_array(parts(first))
    return {
        "parts": difference(as_array(long(inputs)), np.concatenate(outputs[:2], axis=1)),
        "again": difference(after_reset, outputs[0]),
        "kept": difference(outputs[2], outputs[0]),
    }


def dropout(trial: Context) -> dict[str, float]:
    """Return the differences between two calls in training, and two in inference."""
    model = _model(Case(**trial.settings), trial.implementation)
    inputs = normal(np.random.default_rng(trial.seed), 3, 4, 3)
    calls = {
        mode: [as_array(model(inputs, training=mode)) for _ in range(2)] for mode in (True, False)
    }
    return {
        "training": difference(*calls[True]),
        "inference": difference(*calls[False]),
        "between": difference(calls[True][0], calls[False][0]),
    }


def mixed(trial: Context) -> dict[str, float]:
    """Return the difference of a stateful stack from one in float32, for the first two batches."""
    import keras

    case = Case(**trial.settings, stateful=True)
    inputs = normal(np.random.default_rng(trial.seed), case.batch, case.steps, case.inputs)
    outputs = []
    for implementation in (parse_implementation("torch/fused"), trial.implementation):
        model = _model(case, implementation)
        outputs.append([model(inputs) for _ in range(2)])
    assert keras.backend.standardize_dtype(outputs[1][0].dtype) != "float32"
    assert {variable.dtype for variable in model.variables} == {"float32"}
    full, low = ([as_array(output) for output in pair] for pair in outputs)
    return {"first": difference(full[0], low[0]), "second": difference(full[1], low[1])}


def _model(case: Case, implementation: Implementation, *, return_sequences: bool = True) -> Any:
    from workloads.backends.loading import load_framework

    load_framework(implementation.backend).configure(implementation, "cpu")
    return recurrent_reference.build(case, implementation, return_sequences=return_sequences)


def _on_a_cpu(implementation: Implementation) -> AbstractContextManager[Any]:
    """Replace JAX's cuDNN call by its reference LSTM with the same arguments and results."""
    if (implementation.backend, implementation.kernel) != ("jax", "fused"):
        return nullcontext()
    from jax.experimental import rnn

    def plain(x: Any, h: Any, c: Any, weights: Any, lengths: Any, *options: Any) -> Any:
        inputs, units, layers, dropout, bidirectional = options
        unpacked = rnn.unpack_lstm_weights(weights, inputs, units, layers, bidirectional)
        return rnn.lstm_ref(
            x, h, c, *unpacked, lengths, inputs, units, layers, dropout, bidirectional
        )

    return mock.patch.object(rnn, "lstm", plain)


def rewriting(trial: Context) -> dict[str, float]:
    """Return the largest differences between an author's model and its copy for a kernel.

    They are of the outputs and of the regularizers' penalties. `stacks` counts the fused layers.
    """
    import keras

    from tests.workloads.models.author_models import AUTHORS, flat
    from workloads.backends.framework import set_dtype_policy
    from workloads.backends.loading import load_framework
    from workloads.models.fused_stack import FusedStack
    from workloads.models.rewriting import examine_rewrite, rewrite

    # A shared trainer keeps the precision of the trial before this one.
    set_dtype_policy(trial.implementation)
    keras.utils.set_random_seed(trial.seed)
    model, inputs = AUTHORS[trial.settings["model"]]()
    examination = examine_rewrite(model, trial.implementation, "cpu")
    trial.artifact("examination.json", json.dumps({"reason": examination.reason}))
    if examination.reason is not None:
        return {}
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    before = [array.copy() for array in flat(model(inputs, training=False))]
    penalty = float(sum(map(float, model.losses)))
    framework = load_framework(trial.implementation.backend)
    copy = rewrite(model, trial.implementation, framework).model
    after = list(flat(copy(inputs, training=False)))
    errors = [float(np.max(np.abs(a - b))) for a, b in zip(after, before, strict=True)]
    return {
        "difference": max(errors),
        "penalty": abs(float(sum(map(float, copy.losses))) - penalty),
        "stacks": sum(isinstance(layer, FusedStack) for layer in copy._flatten_layers()),
        "is_compiled": copy.compiled,
    }


def converted(trial: Context) -> dict[str, float]:
    """Convert a compiled model to the implementation; return what became of it."""
    import keras

    import rnnsweep
    from workloads.measuring.measurement import prepare_framework

    with prepare_framework(trial):
        layers = [keras.layers.LSTM(4), keras.layers.Dense(2)]
        model = keras.Sequential([keras.Input((5, 3)), *layers])
        model.compile("adam", "mse", jit_compile="auto")
        inputs = normal(np.random.default_rng(trial.seed), 4, 5, 3)
        before = as_array(model(inputs))
        after = rnnsweep.convert(model, str(trial.implementation))
        (lstm,) = (layer for layer in after.layers if isinstance(layer, keras.layers.LSTM))
        return {
            "difference": difference(before, as_array(after(inputs))),
            "is_portable": float(lstm.use_cudnn is False),
            "is_xla": float(after.jit_compile is True),
            "is_eager": float(after.run_eagerly),
        }
