"""Rules for which implementation can run which layers on which device, and the reason if not.

They import no framework. Those for `cudnn` are Keras' (3.15: `keras/src/layers/rnn/`,
`keras/src/backend/{tensorflow,jax,torch}/rnn.py`), which silently runs another kernel in some
cases; tests compare them. Those for `fused` are of `fused.py` in `workloads/backends/NAME/`:
TensorFlow's `CudnnRNNV3`, `jax.experimental.rnn`, PyTorch's `torch._VF`.
"""

import importlib.util
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workloads.implementations import BACKENDS, Implementation, Precision
from workloads.protocol import Device

Cell: TypeAlias = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
Mask: TypeAlias = Literal["none", "right", "left"]

SIMPLE_CELLS = ("rnn_tanh", "rnn_relu")

MIN_CAPABILITY: Mapping[Precision, float] = {"tf32": 8.0, "bf16": 8.0}
"""The first compute capability of NVIDIA's GPUs with the number format: that of Ampere."""


@dataclass(frozen=True, slots=True)
class LayerTraits:
    """Properties of a stack of recurrent layers that decide which kernel may run it.

    `dropout` is the rate between the layers of the stack. `mask` is the side of the padding, in
    sequences of at least one step.
    """

    cell: Cell = "lstm"
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    recurrent_dropout: float = 0.0
    use_bias: bool = True
    layers: int = 1
    bidirectional: bool = False
    dropout: float = 0.0
    mask: Mask = "none"
    stateful: bool = False


def ineligibility_reason(
    implementation: Implementation,
    traits: LayerTraits,
    device: Device,
    *,
    capability: float | None = None,
    has_package: Callable[[str], bool] | None = None,
) -> str | None:
    """Return why `implementation` cannot run layers of these traits on that device; None if it can.

    `capability` is the GPU's compute capability if it is known. `has_package` returns True if a
    backend is installed; by default it looks on this machine. The first reason counts: the device,
    then conflicts between options, then the kernel and the layers.
    """
    how_to_install = BACKENDS.get(implementation.backend)
    if how_to_install and not (has_package or is_installed)(implementation.backend):
        return f"{implementation.backend} is not installed here: {how_to_install}"
    query = _Query(implementation, traits, device, capability)
    reasons = (_device_reasons(query), _option_reasons(query), _layer_reasons(query))
    return next(itertools.chain.from_iterable(reasons), None)


def is_installed(package: str) -> bool:
    """Return True if a package can be imported here, without importing it."""
    return importlib.util.find_spec(package) is not None


@dataclass(frozen=True, slots=True)
class _Query:
    """An implementation, layers and a device, with the terms of the rules."""

    implementation: Implementation
    traits: LayerTraits
    device: Device
    capability: float | None = None

    def on(self, kernel: str, *backends: str) -> bool:
        """Return True for this kernel on one of these backends, or on any if none is given."""
        return self.implementation.kernel == kernel and (not backends or self.backend in backends)

    def has_option(self, *options: str) -> bool:
        return any(option in self.implementation.options for option in options)

    @property
    def backend(self) -> str:
        return self.implementation.backend

    @property
    def library(self) -> str:
        """The library that runs a whole sequence in one call; "" if Keras loops over the steps."""
        if self.on("fused", "torch"):
            return "PyTorch's fused RNN"
        return "cuDNN" if self.on("cudnn") or self.on("fused") else ""

    @property
    def is_gated(self) -> bool:
        return self.traits.cell not in SIMPLE_CELLS


def _device_reasons(q: _Query) -> Iterator[str]:
    if q.device == "gpu":
        precision = q.implementation.precision
        needed = MIN_CAPABILITY.get(precision, 0.0)
        if (q.capability or needed) < needed:
            yield f"+{precision} needs compute capability {needed}, and the GPU has {q.capability}"
        return
    if q.on("cudnn"):
        yield "cuDNN kernels need an NVIDIA GPU"
    if q.on("fused", "tensorflow"):
        yield "CudnnRNNV3 has no CPU kernel: it needs an NVIDIA GPU"
    if q.on("fused", "jax"):
        yield "jax.experimental.rnn has no CPU kernel: it needs an NVIDIA GPU"
    if q.has_option("tf32"):
        yield "TF32 is a number format of NVIDIA's GPUs"
    if q.on("portable", "torch") and q.has_option("fp16"):
        # keras/src/backend/torch/numpy.py, matmul
        yield "Keras on PyTorch silently computes float16 products in float32 on a CPU"


def _option_reasons(q: _Query) -> Iterator[str]:
    if q.has_option("eager") and q.backend == "torch":
        yield "PyTorch always runs eagerly: leave +eager out"
    if q.has_option("eager") and q.has_option("xla"):
        yield "+eager has no graph that +xla could compile"
    if q.has_option("xla") and q.backend == "jax":
        yield "JAX's programs are always compiled by XLA: leave +xla out"
    if q.has_option("xla") and q.backend == "torch":
        yield "PyTorch is not compiled by XLA here: leave +xla out"
    if q.has_option("xla") and q.library:
        yield "TensorFlow's CudnnRNN ops have no XLA kernel: leave +xla out"
    if q.has_option("unroll") and q.library:
        yield f"{q.library} runs the whole sequence in one call and cannot be unrolled"
    if q.has_option("unroll") and q.implementation.eager:
        yield "without a graph there is nothing to unroll: leave +unroll out"
    if q.has_option("bf16", "fp16") and q.library and q.backend == "jax":
        yield "JAX's cuDNN call supports float32 only"
    if q.has_option("bf16") and q.library and q.backend == "tensorflow":
        # "CudnnRnn doesn't support bfloat16 yet, so cast to float" (TensorFlow's cudnn_rnn_ops.cc)
        yield "TensorFlow's CudnnRNN ops would silently compute in float32 instead of bfloat16"


def _layer_reasons(q: _Query) -> Iterator[str]:
    """Yield what a library's call lacks for the layers; Keras' portable layers lack nothing."""
    traits, library = q.traits, q.library
    if not library:
        return
    if q.on("cudnn") and not q.is_gated:
        yield (
            f"Keras' SimpleRNN has no cuDNN path ({traits.cell}): see tensorflow/fused, torch/fused"
        )
    if q.on("cudnn", "jax") and traits.cell == "gru":
        yield "JAX has no cuDNN GRU: Keras would silently run a scan instead"
    if q.on("fused", "jax") and traits.cell != "lstm":
        yield f"jax.experimental.rnn supports only the lstm cell, not {traits.cell}"
    if q.is_gated and traits.activation != "tanh":
        yield f"{library} supports only the activation tanh, not {traits.activation}"
    if q.is_gated and (recurrent := traits.recurrent_activation) != "sigmoid":
        yield f"{library} supports only the recurrent activation sigmoid, not {recurrent}"
    if (rate := traits.recurrent_dropout) > 0:
        yield f"{library} has no recurrent dropout (recurrent_dropout is {rate})"
    if q.on("cudnn") and not traits.use_bias:
        yield "Keras' cuDNN path needs the bias (use_bias is false)"
    if q.on("fused") and not traits.use_bias:
        yield "the fused layer always has a bias (use_bias is false)"
    if q.on("fused", "jax") and traits.layers > 1 and traits.dropout > 0:
        yield (
            "jax.experimental.rnn cannot draw a new dropout mask at each step"
            f" (dropout between layers is {traits.dropout})"
        )
    if q.on("cudnn", "jax", "torch") and traits.mask != "none":
        yield f"Keras' cuDNN path takes no mask on {q.backend}"
    if traits.mask == "left":
        yield f"{library} supports padding on the right only, and the padding is on the left"
    if q.on("fused") and traits.stateful and traits.mask != "none":
        yield "the fused layer takes no mask if it is stateful"
    if q.on("cudnn", "torch") and traits.stateful and not q.has_option("bf16", "fp16"):
        # mixed precision casts the states, and a cast is a copy
        yield (
            "Keras' PyTorch layers overwrite the states that cuDNN's backward pass still needs"
            " (the stack is stateful)"
        )
