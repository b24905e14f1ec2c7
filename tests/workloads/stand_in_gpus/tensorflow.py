"""TensorFlow: the check for a GPU is patched, and the graph is traced but not run."""

import warnings
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from tests.building.recurrent_reference import run_stack
from tests.workloads.stand_in_gpus import CUDNN, OTHER_KERNEL
from workloads.backends.registry import is_compiled
from workloads.backends.stack_call import StackShape
from workloads.implementations import Implementation
from workloads.models.canonical_weights import from_buffer


def gpu() -> AbstractContextManager[Any]:
    return mock.patch("keras.src.backend.tensorflow.rnn._is_gpu_available", return_value=True)


def kernel(model: Any, inputs: Any, implementation: Implementation) -> str:
    if is_compiled(implementation):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.compile(loss="mse", jit_compile=True)
        if not model.jit_compile:
            return "without XLA, silently"
    call = tf.compat.v1.wrap_function(
        lambda batch: model(batch, training=True), [tf.TensorSpec(inputs.shape)]
    )
    operations = call.graph.get_operations()
    asserted = [operation.inputs[0] for operation in operations if operation.type == "Assert"]
    if asserted and not all(call.prune(call.inputs[:1], asserted)(tf.constant(inputs))):
        return "a failed assertion"
    kinds = {operation.type for operation in operations}
    return CUDNN if "CudnnRNNV3" in kinds and "While" not in kinds else OTHER_KERNEL


def cudnn_rnn_v3(**given: Any) -> tuple[Any, ...]:
    """Compute `CudnnRNNV3` by the reference, in the kernel's own memory of the states."""
    inputs, hidden = given["input"].numpy(), given["input_h"].numpy()
    batch, pseudo_layers, units = hidden.shape
    directions = 2 if given["direction"] == "bidirectional" else 1
    sizes = inputs.shape[2], units, pseudo_layers // directions, directions == 2
    shape = StackShape(given["rnn_mode"], *sizes)
    carry = given["input_c"].numpy() if shape.cell == "lstm" else hidden
    in_memory = (array.reshape(pseudo_layers, batch, units) for array in (hidden, carry))
    counts = np.arange(inputs.shape[1]) < given["sequence_lengths"].numpy()[:, None]
    outputs, _, finals = run_stack(
        shape.cell,
        from_buffer(given["params"].numpy(), shape),
        inputs,
        counts[..., None],
        directions,
        list(zip(*in_memory, strict=True)),
    )
    states = (np.stack(arrays).reshape(hidden.shape) for arrays in zip(*finals, strict=True))
    return (*(tf.constant(array, "float32") for array in (outputs, *states)), None, None)
