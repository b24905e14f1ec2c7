"""Workloads that compare the rules of `workloads.eligibility` with the behaviour of Keras.

They run inside a warm trainer of every backend. Layers are tiny and, on a simulated GPU, traced
and not run, so that hundreds of cases take seconds.
"""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

import dataclasses
import importlib
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.workloads.stand_in_gpus import CUDNN
from workloads.context import Context
from workloads.eligibility import SIMPLE_CELLS, Cell, LayerTraits, ineligibility_reason
from workloads.implementations import Implementation, parse_implementation
from workloads.protocol import Device

REFUSED = "refused"
_REFUSALS = (
    "use_cudnn=True was specified, but cuDNN is not supported",  # Keras
    "expected the lstm cell without dropout between layers",  # workloads.models.fused
    "expected padding on the right",
    "expected no mask, because the stack is stateful",
)
_CELLS = ("lstm", "gru", *SIMPLE_CELLS)
_PLACES = ("none", "right", "left")
_BOOLEANS = (False, True)

Cases = Iterator[tuple[Implementation, LayerTraits]]


def cudnn_rules(trial: Context) -> dict[str, float]:
    """Compare our rules for `cudnn` with Keras on a simulated GPU; count the outcomes.

    Covers all cases whose arithmetic cuDNN supports, and one of `stride` of the others.
    """
    stride = trial.settings["stride"]
    return _compared(
        (implementation, traits)
        for number, (implementation, traits) in enumerate(_cudnn(trial.implementation.backend))
        if number % stride == 0 or _arithmetic(traits) == _arithmetic(LayerTraits())
    )


def fused_rules(trial: Context) -> dict[str, float]:
    """Compare our rules for `fused` with the layer on this CPU (PyTorch) or on a simulated GPU.

    Covers one of `stride` of all cases.
    """
    backend = trial.implementation.backend
    cases = itertools.islice(_fused(backend), 0, None, trial.settings["stride"])
    return _compared(cases, device="cpu" if backend == "torch" else "gpu")


def without_gpu(trial: Context) -> dict[str, float]:
    """Return Keras' outcome for cuDNN on this machine, by cell."""
    implementation = parse_implementation(f"{trial.implementation.backend}/cudnn")
    cells: tuple[Cell, ...] = ("lstm", "gru")
    return {f"{cell}: {kernel_of(implementation, LayerTraits(cell), 'cpu')}": 1.0 for cell in cells}


def swallowed(trial: Context) -> dict[str, float]:
    """Count the outcomes of Keras' PyTorch layers if the library's call fails."""
    from tests.workloads.stand_in_gpus import torch as simulated_gpu

    implementation, failing = parse_implementation("torch/cudnn"), RuntimeError("cuDNN error")
    counts: Counter[str] = Counter()
    cells: tuple[Cell, ...] = ("lstm", "gru")
    for cell, bidirectional in itertools.product(cells, _BOOLEANS):
        traits = LayerTraits(cell, bidirectional=bidirectional)
        with simulated_gpu.gpu():
            model = model_of(implementation, traits)
            counts[
                simulated_gpu.kernel(model, _inputs(traits), implementation, failing=failing)
            ] += 1
    return {what: float(count) for what, count in counts.items()}


def xla(trial: Context) -> dict[str, float]:
    """Return 1 for operations that XLA can compile for a GPU, and for layers that keep XLA.

    `portable` and `bidirectional` are 1 if Keras compiles such layers with XLA on request.
    """
    import tensorflow as tf
    from tensorflow.python.framework import kernels

    from tests.workloads.stand_in_gpus import tensorflow as simulated_gpu

    tf.function(tf.matmul, jit_compile=True)(tf.ones((1, 1)), tf.ones((1, 1)))  # registers kernels
    flags: dict[str, float] = {}
    for name in ("CudnnRNNV3", "MatMul"):
        registered = kernels.get_registered_kernels_for_op(name).kernel
        flags[name] = float(any(kernel.device_type == "XLA_GPU_JIT" for kernel in registered))
    implementation = parse_implementation("tensorflow/portable+xla")
    with simulated_gpu.gpu():
        for name, bidirectional in (("portable", False), ("bidirectional", True)):
            model = model_of(implementation, LayerTraits(bidirectional=bidirectional))
            flags[name] = float(simulated_gpu.keeps_xla(model))
    return flags


def eager_call(trial: Context) -> dict[str, float]:
    """Return 1 if JAX without a graph reaches the cuDNN call, for which a CPU has no code."""
    from tests.workloads.stand_in_gpus import jax as simulated_gpu

    with simulated_gpu.gpu():
        model = model_of(parse_implementation("jax/fused+eager"), LayerTraits(bidirectional=True))
        try:
            model(_inputs(LayerTraits()))
        except NotImplementedError as error:
            return {"reached": float("'rnn_fwd' not found for platform cpu" in str(error))}
    return {"reached": 0.0}


def simple_cudnn(trial: Context) -> dict[str, float]:
    """Return 1 if Keras' SimpleRNN refuses cuDNN."""
    import keras

    try:
        keras.layers.SimpleRNN(4, use_cudnn=True)
    except ValueError as error:
        return {"refused": float("use_cudnn" in str(error))}
    return {"refused": 0.0}


def _cudnn(backend: str) -> Cases:
    """Yield all combinations of the settings that Keras reads."""
    xla = ["+xla"] if backend == "tensorflow" else ["+bf16"]  # CudnnRNNV3 casts bfloat16 inside
    combinations = itertools.product(
        ("tanh", "relu"), ("sigmoid", "hard_sigmoid"), (0.0, 0.1), (True, False),
        ("lstm", "gru"), _PLACES, _BOOLEANS, _BOOLEANS, ["", "+unroll", "+relu", "+fp16", *xla],
    )  # fmt: skip
    for (
        activation,
        gates,
        dropout,
        bias,
        cell,
        mask,
        bidirectional,
        stateful,
        option,
    ) in combinations:
        traits: Any = {
            "cell": cell,
            "mask": mask,
            "bidirectional": bidirectional,
            "stateful": stateful,
        }
        arithmetic: Any = {
            "activation": activation,
            "recurrent_activation": gates,
            "recurrent_dropout": dropout,
            "use_bias": bias,
        }
        yield parse_implementation(f"{backend}/cudnn{option}"), LayerTraits(**traits, **arithmetic)


def _arithmetic(traits: LayerTraits) -> tuple[Any, ...]:
    return (
        traits.activation,
        traits.recurrent_activation,
        traits.recurrent_dropout,
        traits.use_bias,
    )


def _fused(backend: str) -> Cases:
    options = ["", "+fp16", *(["+bf16"] if backend != "tensorflow" else [])]
    places = _PLACES if backend != "jax" else _PLACES[:2]  # a lowered program does not show it
    for cell, mask, bidirectional, stateful, (layers, dropout), option in itertools.product(
        _CELLS, places, _BOOLEANS, _BOOLEANS, ((1, 0.3), (2, 0.0), (2, 0.3)), options
    ):
        traits: Any = {
            "cell": cell,
            "mask": mask,
            "bidirectional": bidirectional,
            "stateful": stateful,
        }
        yield (
            parse_implementation(f"{backend}/fused{option}"),
            LayerTraits(**traits, layers=layers, dropout=dropout),
        )


def _compared(cases: Cases, device: Device = "gpu") -> dict[str, float]:
    counts: Counter[str] = Counter()
    for implementation, traits in cases:
        reason = ineligibility_reason(implementation, traits, device)
        outcome = kernel_of(implementation, traits, device)
        if (outcome == CUDNN) != (reason is None):
            raise AssertionError(f"{implementation} {traits}: theirs: {outcome}; ours: {reason}")
        counts[outcome] += 1
    return {what: float(count) for what, count in counts.items()}


def kernel_of(implementation: Implementation, traits: LayerTraits, device: Device) -> str:
    """Return the kernel of a training step, on this CPU or on a simulated GPU."""
    simulated_gpu = importlib.import_module(
        f"tests.workloads.stand_in_gpus.{implementation.backend}"
    )
    try:
        with simulated_gpu.gpu() if device == "gpu" else nullcontext():
            model = model_of(implementation, traits)
            return str(simulated_gpu.kernel(model, _inputs(traits), implementation))
    except ValueError as error:
        if not any(text in str(error) for text in _REFUSALS):
            raise
        return REFUSED


def model_of(implementation: Implementation, traits: LayerTraits) -> Any:
    """Build a model of such layers, after a layer that makes their mask."""
    import keras

    from workloads.models.layers import recurrent_stack

    settings: Any = SimpleNamespace(units=4, **dataclasses.asdict(traits))
    with _policy_of(implementation):
        return keras.Sequential(
            [
                keras.Input((3, 5), batch_size=2),
                *([keras.layers.Masking()] if traits.mask != "none" else []),
                *recurrent_stack(settings, implementation, return_sequences=False, seed=1),
            ]
        )


@contextmanager
def _policy_of(implementation: Implementation) -> Iterator[None]:
    import keras

    from workloads.frameworks.framework import set_dtype_policy

    before = keras.config.dtype_policy()
    set_dtype_policy(implementation)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _inputs(traits: LayerTraits) -> Any:
    inputs = np.ones((2, 3, 5), np.float32)
    if traits.mask != "none":
        inputs[0, 0 if traits.mask == "left" else -1] = 0
    return inputs


def portable_runs(trial: Context) -> dict[str, float]:
    """Run portable layers forward and backward on this CPU; our rules must allow every case.

    The setting `cases` is the number of drawn cases; every implementation draws its own.
    """
    cases = list(_portable(trial.implementation))
    drawn_cases = random.Random(str(trial.implementation)).sample(cases, trial.settings["cases"])
    for implementation, traits in drawn_cases:
        reason = ineligibility_reason(implementation, traits, "cpu")
        if reason is not None:
            raise AssertionError(f"{implementation} {traits}: ours: {reason}")
        _run(implementation, traits)
    return {"runs": float(len(drawn_cases))}


def _portable(implementation: Implementation) -> Cases:
    for cell, mask, bidirectional, stateful, dropout, bias in itertools.product(
        _CELLS, _PLACES, _BOOLEANS, _BOOLEANS, (0.0, 0.1), _BOOLEANS
    ):
        traits: Any = {
            "cell": cell,
            "mask": mask,
            "bidirectional": bidirectional,
            "stateful": stateful,
        }
        yield implementation, LayerTraits(**traits, recurrent_dropout=dropout, use_bias=bias)


def _run(implementation: Implementation, traits: LayerTraits) -> None:
    import keras

    from workloads.models import passes

    with _policy_of(implementation):
        run = passes.make_passes(model_of(implementation, traits), implementation)
        gradients = run.forward_backward(run.place(_inputs(traits)))
    for gradient in keras.tree.flatten(gradients):
        if not np.isfinite(keras.ops.convert_to_numpy(keras.ops.cast(gradient, "float32"))).all():
            raise AssertionError(f"{implementation} {traits}: not finite")
