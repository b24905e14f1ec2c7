"""Rules for which implementation can run which layers on which device, and the reason if not.

They are checked before anything runs, and import no framework. The rules for `cudnn` are those of
Keras 3.15 (`keras/src/layers/rnn/`, `keras/src/backend/{tensorflow,jax,torch}/rnn.py`). Keras
refuses some of these cases and silently runs another kernel in others; tests compare the rules
with Keras in both directions. The rules for `fused` are those of `workloads.models.fused` and of
its library calls: TensorFlow's `CudnnRNNV3`, `jax.experimental.rnn`, PyTorch's `torch._VF`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workloads.implementations import BACKENDS, Implementation
from workloads.protocol import Device

Cell: TypeAlias = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
Mask: TypeAlias = Literal["none", "right", "left"]

SIMPLE_CELLS = ("rnn_tanh", "rnn_relu")


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
    has_package: Callable[[str], bool] | None = None,
) -> str | None:
    """Return why `implementation` cannot run layers of these traits on that device; None if it can.

    Args:
        implementation: one that the built-in workloads know.
        traits: traits of the layers.
        device: device to run on.
        has_package: returns True if a backend is installed; by default, looks on this machine.

    Returns:
        The first of all reasons: what the device lacks, then conflicts between the options, then
        what the kernel lacks for the layers.
    """
    how_to_install = BACKENDS.get(implementation.backend)
    if how_to_install and not (has_package or is_installed)(implementation.backend):
        return f"{implementation.backend} is not installed here: {how_to_install}"
    query = _Query(implementation, traits, device)
    rules = (*_DEVICE_RULES, *_OPTION_RULES, *(_LAYER_RULES if query.library else ()))
    reason = next((text for is_broken, text in rules if is_broken(query)), None)
    return reason and reason.format(query=query, traits=traits)


def is_installed(package: str) -> bool:
    """Return True if a package can be imported here, without importing it."""
    return importlib.util.find_spec(package) is not None


@dataclass(frozen=True, slots=True)
class _Query:
    """An implementation, layers and a device, with the terms that the rules are written in."""

    implementation: Implementation
    traits: LayerTraits
    device: Device

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
    def activation(self) -> str:
        """The activation of a gated cell; every library has that of the simple cells."""
        return "relu" if self.has_option("relu") else self.traits.activation

    @property
    def is_gated(self) -> bool:
        return self.traits.cell not in SIMPLE_CELLS


_Rule: TypeAlias = tuple[Callable[[_Query], bool], str]

_DEVICE_RULES: tuple[_Rule, ...] = (
    (lambda a: a.on("cudnn") and a.device != "gpu", "cuDNN kernels need an NVIDIA GPU"),
    (
        lambda a: a.on("fused", "tensorflow") and a.device != "gpu",
        "CudnnRNNV3 has no CPU kernel: it needs an NVIDIA GPU",
    ),
    (
        lambda a: a.on("fused", "jax") and a.device != "gpu",
        "jax.experimental.rnn has no CPU kernel: it needs an NVIDIA GPU",
    ),
    (
        lambda a: a.has_option("tf32") and a.device != "gpu",
        "TF32 is a number format of NVIDIA's GPUs",
    ),
)

_OPTION_RULES: tuple[_Rule, ...] = (
    (  # keras/src/backend/torch/numpy.py, matmul
        lambda a: a.on("portable", "torch") and a.has_option("fp16") and a.device != "gpu",
        "Keras on PyTorch silently computes float16 products in float32 on a CPU",
    ),
    (
        lambda a: a.has_option("eager") and a.backend == "torch",
        "PyTorch always runs eagerly: leave +eager out",
    ),
    (
        lambda a: a.has_option("eager") and a.has_option("xla"),
        "+eager has no graph that +xla could compile",
    ),
    (
        lambda a: a.has_option("xla") and a.backend == "jax",
        "JAX's programs are always compiled by XLA: leave +xla out",
    ),
    (
        lambda a: a.has_option("xla") and a.backend == "torch",
        "PyTorch is not compiled by XLA here: leave +xla out",
    ),
    (
        lambda a: a.has_option("xla") and a.library != "",
        "TensorFlow's CudnnRNN ops have no XLA kernel: leave +xla out",
    ),
    (
        lambda a: a.has_option("unroll") and a.library != "",
        "{query.library} runs the whole sequence in one call and cannot be unrolled",
    ),
    (
        lambda a: a.has_option("unroll") and a.implementation.eager,
        "without a graph there is nothing to unroll: leave +unroll out",
    ),
    (
        lambda a: a.has_option("bf16", "fp16") and a.library != "" and a.backend == "jax",
        "JAX's cuDNN call supports float32 only",
    ),
    (  # "CudnnRnn doesn't support bfloat16 yet, so cast to float" (TensorFlow's cudnn_rnn_ops.cc)
        lambda a: a.has_option("bf16") and a.library != "" and a.backend == "tensorflow",
        "TensorFlow's CudnnRNN ops would silently compute in float32 instead of bfloat16",
    ),
    (
        lambda a: a.has_option("relu") and not a.is_gated,
        "+relu changes the activation of lstm and gru; {traits.cell} has its own by name",
    ),
    (
        lambda a: a.has_option("relu") and a.traits.activation == "relu",
        "the activation is already relu: leave +relu out",
    ),
)

# Keras' portable layers support all settings: these rules are for library calls only.
_LAYER_RULES: tuple[_Rule, ...] = (
    (
        lambda a: a.on("cudnn") and not a.is_gated,
        "Keras' SimpleRNN has no cuDNN path ({traits.cell}): see tensorflow/fused, torch/fused",
    ),
    (
        lambda a: a.on("cudnn", "jax") and a.traits.cell == "gru",
        "JAX has no cuDNN GRU: Keras would silently run a scan instead",
    ),
    (
        lambda a: a.on("fused", "jax") and a.traits.cell != "lstm",
        "jax.experimental.rnn supports only the lstm cell, not {traits.cell}",
    ),
    (
        lambda a: a.is_gated and a.activation != "tanh",
        "{query.library} supports only the activation tanh, not {query.activation}",
    ),
    (
        lambda a: a.is_gated and a.traits.recurrent_activation != "sigmoid",
        "{query.library} supports only the recurrent activation sigmoid,"
        " not {traits.recurrent_activation}",
    ),
    (
        lambda a: a.traits.recurrent_dropout > 0,
        "{query.library} has no recurrent dropout"
        " (recurrent_dropout is {traits.recurrent_dropout})",
    ),
    (
        lambda a: a.on("cudnn") and not a.traits.use_bias,
        "Keras' cuDNN path needs the bias (use_bias is false)",
    ),
    (
        lambda a: a.on("fused") and not a.traits.use_bias,
        "the fused layer always has a bias (use_bias is false)",
    ),
    (
        lambda a: a.on("fused", "jax") and a.traits.layers > 1 and a.traits.dropout > 0,
        "jax.experimental.rnn cannot draw a new dropout mask at each step"
        " (dropout between layers is {traits.dropout})",
    ),
    (
        lambda a: a.on("cudnn", "jax", "torch") and a.traits.mask != "none",
        "Keras' cuDNN path takes no mask on {query.backend}",
    ),
    (
        lambda a: a.traits.mask == "left",
        "{query.library} supports padding on the right only, and the padding is on the left",
    ),
    (
        lambda a: a.on("fused") and a.traits.stateful and a.traits.mask != "none",
        "the fused layer takes no mask if it is stateful",
    ),
    (  # mixed precision casts the states, and a cast is a copy
        lambda a: a.on("cudnn", "torch") and a.traits.stateful and not a.has_option("bf16", "fp16"),
        "Keras' PyTorch layers overwrite the states that cuDNN's backward pass still needs"
        " (the stack is stateful)",
    ),
)
