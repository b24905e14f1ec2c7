"""Who may run what, and why not: rules that can be asked before anything runs.

No framework is imported. The rules on `cudnn` are those of Keras 3.15
(`keras/src/layers/rnn/`, `keras/src/backend/{tensorflow,jax,torch}/rnn.py`), which refuses some
of these cases and quietly runs another kernel in others; the tests hold them against what Keras
does, in both directions. The rules on `fused` are those of `workloads.models.fused` and of the
library
calls beneath: TensorFlow's `CudnnRNNV3`, `jax.experimental.rnn`, PyTorch's `torch._VF`.
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
    """What decides which kernel may run a stack of recurrent layers.

    `dropout` is that between the layers of the stack; `mask` tells where the padding stands, in
    sequences of one step at least.
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
    """Why `implementation` cannot run layers of these traits on that device; None if it can.

    Args:
        implementation: of the built-in workloads' grammar.
        traits: of the layers.
        device: what they would run on.
        has_package: whether a backend is installed; by default, whether it is here.

    Returns:
        The first reason of several: what the device lacks, then what the implementation's own
        options rule out, then what the layers ask for.
    """
    how_to_install = BACKENDS.get(implementation.backend)
    if how_to_install and not (has_package or is_installed)(implementation.backend):
        return f"{implementation.backend} is not installed here: {how_to_install}"
    asked = _Asked(implementation, traits, device)
    rules = (*_DEVICE, *_OPTIONS, *(_LAYERS if asked.library else ()))
    reason = next((because for breaks, because in rules if breaks(asked)), None)
    return reason and reason.format(asked=asked, traits=traits)


def is_installed(package: str) -> bool:
    """Whether a package could be imported here; does not import it."""
    return importlib.util.find_spec(package) is not None


@dataclass(frozen=True, slots=True)
class _Asked:
    """The question, in the words of the rules."""

    implementation: Implementation
    traits: LayerTraits
    device: Device

    def on(self, kernel: str, *backends: str) -> bool:
        """Whether it is this kernel, on one of these backends (or on any)."""
        return self.implementation.kernel == kernel and (not backends or self.backend in backends)

    def wants(self, *options: str) -> bool:
        return any(option in self.implementation.options for option in options)

    @property
    def backend(self) -> str:
        return self.implementation.backend

    @property
    def library(self) -> str:
        """What runs the whole sequence in one call; empty where Keras loops over the steps."""
        if self.on("fused", "torch"):
            return "PyTorch's fused RNN"
        return "cuDNN" if self.on("cudnn") or self.on("fused") else ""

    @property
    def activation(self) -> str:
        """Of gated cells; that of the simple ones is in their name, and every library knows it."""
        return "relu" if self.wants("relu") else self.traits.activation

    @property
    def is_gated(self) -> bool:
        return self.traits.cell not in SIMPLE_CELLS


_Rule: TypeAlias = tuple[Callable[[_Asked], bool], str]

_DEVICE: tuple[_Rule, ...] = (
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
        lambda a: a.wants("tf32") and a.device != "gpu",
        "TF32 is a number format of NVIDIA's GPUs",
    ),
)

_OPTIONS: tuple[_Rule, ...] = (
    (  # keras/src/backend/torch/numpy.py, matmul
        lambda a: a.on("portable", "torch") and a.wants("fp16") and a.device != "gpu",
        "Keras on PyTorch quietly computes float16 products in float32 on a CPU",
    ),
    (
        lambda a: a.wants("eager") and a.backend == "torch",
        "PyTorch always runs eagerly: leave +eager out",
    ),
    (
        lambda a: a.wants("eager") and a.wants("xla"),
        "+eager has no graph that +xla could compile",
    ),
    (
        lambda a: a.wants("xla") and a.backend == "jax",
        "JAX's programs are always compiled by XLA: leave +xla out",
    ),
    (
        lambda a: a.wants("xla") and a.backend == "torch",
        "PyTorch is not compiled by XLA here: leave +xla out",
    ),
    (
        lambda a: a.wants("xla") and a.library != "",
        "TensorFlow's CudnnRNN ops have no XLA kernel: leave +xla out",
    ),
    (
        lambda a: a.wants("unroll") and a.library != "",
        "{asked.library} runs the whole sequence itself and cannot be unrolled",
    ),
    (
        lambda a: a.wants("unroll") and a.implementation.eager,
        "without a graph there is nothing that could be unrolled: leave +unroll out",
    ),
    (
        lambda a: a.wants("bf16", "fp16") and a.library != "" and a.backend == "jax",
        "JAX's cuDNN call knows float32 only",
    ),
    (  # "CudnnRnn doesn't support bfloat16 yet, so cast to float" (TensorFlow's cudnn_rnn_ops.cc)
        lambda a: a.wants("bf16") and a.library != "" and a.backend == "tensorflow",
        "TensorFlow's CudnnRNN ops would quietly compute in float32 in place of bfloat16",
    ),
    (
        lambda a: a.wants("relu") and not a.is_gated,
        "+relu changes the activation of lstm and gru; {traits.cell} has its own by name",
    ),
    (
        lambda a: a.wants("relu") and a.traits.activation == "relu",
        "the activation is relu already: leave +relu out",
    ),
)

# Keras' portable layers can do all that the settings can say: these are about library calls.
_LAYERS: tuple[_Rule, ...] = (
    (
        lambda a: a.on("cudnn") and not a.is_gated,
        "Keras' SimpleRNN has no cuDNN path ({traits.cell}): see tensorflow/fused, torch/fused",
    ),
    (
        lambda a: a.on("cudnn", "jax") and a.traits.cell == "gru",
        "JAX has no cuDNN GRU: Keras would quietly run a scan in its place",
    ),
    (
        lambda a: a.on("fused", "jax") and a.traits.cell != "lstm",
        "jax.experimental.rnn knows only the lstm cell, not {traits.cell}",
    ),
    (
        lambda a: a.is_gated and a.activation != "tanh",
        "{asked.library} knows only the activation tanh, not {asked.activation}",
    ),
    (
        lambda a: a.is_gated and a.traits.recurrent_activation != "sigmoid",
        "{asked.library} knows only the recurrent activation sigmoid,"
        " not {traits.recurrent_activation}",
    ),
    (
        lambda a: a.traits.recurrent_dropout > 0,
        "{asked.library} has no recurrent dropout"
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
        "Keras' cuDNN path takes no mask on {asked.backend}",
    ),
    (
        lambda a: a.traits.mask == "left",
        "{asked.library} knows padding on the right only, and the padding is on the left",
    ),
    (
        lambda a: a.on("fused") and a.traits.stateful and a.traits.mask != "none",
        "the fused layer takes no mask where it is stateful",
    ),
    (  # mixed precision casts the states, and a cast is a copy
        lambda a: a.on("cudnn", "torch") and a.traits.stateful and not a.wants("bf16", "fp16"),
        "Keras' PyTorch layers overwrite the states that cuDNN's backward pass still needs"
        " (the stack is stateful)",
    ),
)
