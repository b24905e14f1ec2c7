"""JAX: the check for a GPU is patched, and the program is lowered for CUDA but not compiled."""
# jaxlib for CPUs lacks how much memory a call needs, and the packing of its sizes: replaced.

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
from jax.experimental import rnn
from jax.interpreters import mlir
from jaxlib import gpu_rnn

from tests.workloads.stand_in_gpus import CUDNN, OTHER_KERNEL
from workloads.implementations import Implementation

_HALF_PRECISION = (
    "Unknown output type",  # the cuDNN call with another type than float32
    "scan body function carry",  # Keras' GRU without a bias: it adds zeros of float32
)


class _Library:
    @staticmethod
    def build_rnn_descriptor(*sizes: Any) -> bytes:
        return b"cuDNN with TF32" if sizes[7] else b"cuDNN without TF32"


@contextmanager
def gpu() -> Iterator[None]:
    for primitive, lowering in (
        (rnn.rnn_fwd_p, gpu_rnn._rnn_fwd_lowering),
        (rnn.rnn_bwd_p, gpu_rnn._rnn_bwd_lowering),
    ):
        mlir.register_lowering(primitive, partial(lowering, _Library, "cu"), platform="cuda")
    with (
        mock.patch("keras.src.backend.jax.rnn._is_gpu_available", return_value=True),
        mock.patch.object(
            gpu_rnn,
            "compute_rnn_workspace_reserve_space_sizes",
            lambda *sizes: (2**20, 3 * 2**20),  # bytes of work space, and of reserve
            create=True,
        ),
    ):
        yield


def kernel(model: Any, inputs: Any, implementation: Implementation) -> str:
    trainable, others = (
        [variable.value for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    )

    def total(weights: Any) -> Any:
        outputs, _ = model.stateless_call(weights, others, inputs, training=True)
        return outputs.astype(jnp.float32).sum()

    try:
        traced = jax.jit(jax.grad(total)).trace(trainable)
        program = traced.lower(lowering_platforms=("cuda",)).as_text()
    except (TypeError, ValueError) as error:
        if not any(text in str(error) for text in _HALF_PRECISION):
            raise
        return "a program that JAX cannot make"
    called = "@cudnn_rnn_ffi" in program and "@cudnn_rnn_bwd_ffi" in program
    return CUDNN if called and "stablehlo.while" not in program else OTHER_KERNEL
