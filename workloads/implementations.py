"""What can be compared: the grammar `backend/kernel[+option…]`, and who may run what, and why not.

Everything here is a rule that can be asked before anything runs; no framework is imported.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workloads.protocol import Device

BACKENDS: Mapping[str, str] = {"tensorflow": "tensorflow"}
"""Backend -> the Python package that must be importable on the node."""

KERNELS: Mapping[str, str] = {
    "portable": "Keras' own layer without cuDNN (use_cudnn=False)",
    "cudnn": "Keras' own layer on cuDNN (use_cudnn=True), one call per layer",
}
OPTIONS: Mapping[str, str] = {
    "xla": "the train, test and predict functions are compiled by XLA (jit_compile=True)",
    "unroll": "the time loop is unrolled into the graph",
}
_SHAPE = re.compile(r"(?P<backend>[a-z0-9_]+)/(?P<kernel>[a-z0-9_]+)(?P<options>(\+[a-z0-9_]+)*)")


class ImplementationError(ValueError):
    """A text that names no implementation: says what was expected and what was received."""


@dataclass(frozen=True, slots=True, order=True)
class Implementation:
    """A backend, a kernel and options: `tensorflow/portable+xla`. Options are kept sorted."""

    backend: str
    kernel: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((f"{self.backend}/{self.kernel}", *self.options))

    @property
    def kernel_text(self) -> str:
        """Kernel and options without the backend, as `kernel_asked` and `kernel_ran` are told."""
        return "+".join((self.kernel, *self.options))

    @property
    def jit(self) -> bool:
        """Whether the program is compiled by XLA; always explicit, never left to Keras."""
        return "xla" in self.options


@dataclass(frozen=True, slots=True)
class LayerTraits:
    """What decides which kernel may run a recurrent layer."""

    cell: str = "lstm"
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    recurrent_dropout: float = 0.0
    use_bias: bool = True


def parse(text: str, *, known_only: bool = True) -> Implementation:
    """Read `backend/kernel[+option…]`.

    Args:
        text: for instance `tensorflow/cudnn`.
        known_only: refuse names that no built-in workload knows. Users' own workloads may use
            any names.

    Raises:
        ImplementationError: the text is not of that shape, repeats an option, or (with
            `known_only`) uses an unknown name; the nearest known one is suggested.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ImplementationError(
            f"expected backend/kernel[+option…], such as tensorflow/portable+xla; received {text!r}"
        )
    options = tuple(sorted(filter(None, match["options"].split("+"))))
    if len(set(options)) != len(options):
        raise ImplementationError(f"{text!r} names an option twice")
    if known_only:
        _expect_known("backend", match["backend"], BACKENDS)
        _expect_known("kernel", match["kernel"], KERNELS)
        for option in options:
            _expect_known("option", option, OPTIONS)
    return Implementation(match["backend"], match["kernel"], options)


def ineligible(
    implementation: Implementation,
    traits: LayerTraits,
    device: Device,
    *,
    has_package: Callable[[str], bool] | None = None,
) -> str | None:
    """Why `implementation` cannot run layers of these traits on that device; None if it can.

    The cuDNN rules are those of Keras 3 (`keras/src/backend/tensorflow/rnn.py`, `_do_lstm_arguments
    _support_cudnn`): tanh, sigmoid, no recurrent dropout, no unrolling, bias.
    """
    package = BACKENDS.get(implementation.backend)
    if package is not None and not (has_package or _is_installed)(package):
        return f"{package} is not installed here: pip install {package}"
    if implementation.kernel != "cudnn":
        return None
    if device != "gpu":
        return "cuDNN kernels need an NVIDIA GPU"
    if traits.activation != "tanh":
        return f"cuDNN knows only the activation tanh, not {traits.activation}"
    if traits.recurrent_activation != "sigmoid":
        return (
            f"cuDNN knows only the recurrent activation sigmoid, not {traits.recurrent_activation}"
        )
    if traits.recurrent_dropout > 0:
        return f"cuDNN has no recurrent dropout (recurrent_dropout is {traits.recurrent_dropout})"
    if not traits.use_bias:
        return "cuDNN needs the bias (use_bias is false)"
    if "unroll" in implementation.options:
        return "cuDNN runs the whole sequence itself and cannot be unrolled"
    if implementation.jit:
        return "TensorFlow's CudnnRNN ops have no XLA kernel"
    return None


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _expect_known(what: str, name: str, known: Mapping[str, str]) -> None:
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ImplementationError(
        f"expected a {what} among {', '.join(known)}; received {name!r}{hint}"
    )
