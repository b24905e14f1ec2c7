"""TensorFlow: the check for a GPU is patched, and the graph is traced but not run."""

import warnings
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import tensorflow as tf

from tests.workloads.stand_in_gpus import CUDNN, OTHER_KERNEL
from workloads.implementations import Implementation


def gpu() -> AbstractContextManager[Any]:
    return mock.patch("keras.src.backend.tensorflow.rnn._is_gpu_available", return_value=True)


def kernel(model: Any, inputs: Any, implementation: Implementation) -> str:
    if implementation.jit:
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
