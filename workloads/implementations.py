"""Implementations that can be compared: the grammar `backend/kernel[+option…]`.

The names of kernels and options are here; the names of backends are in
`workloads.backends.registry`, which also checks all three.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["float32", "tf32", "bf16", "fp16"]

AUTO = "auto"
"""The kernel of a model that is measured as it is written."""

KERNELS: Mapping[str, str] = {
    AUTO: "the model as written: Keras chooses the kernel of its layers, and whether it compiles",
    "portable": "Keras' own layer without cuDNN (use_cudnn=False)",
    "cudnn": "Keras' own layer on cuDNN (use_cudnn=True), one call per layer",
    "fused": "the whole stack of recurrent layers in one call of the backend's library",
}
"""Kernel -> what runs the recurrent layers."""

OPTIONS: Mapping[str, str] = {
    "xla": "the train, test and predict functions are compiled by XLA (Keras' jit_compile)",
    "unroll": "the time loop is unrolled into the graph",
    "bf16": "mixed precision: bfloat16 mathematics, float32 variables",
    "fp16": "mixed precision: float16 mathematics, float32 variables, scaled loss",
    "tf32": "a GPU's tensor cores may round the inputs of float32 products to TF32",
    "eager": "no graph: each operation runs when Python reaches it",
    "again": "changes nothing: a second copy in its own process, which shows the noise (A/A test)",
}
"""Option -> what it changes. A backend may refuse one, with the reason, and add its own."""

PRECISIONS: tuple[Precision, ...] = ("tf32", "bf16", "fp16")
"""The options that choose the number format of matrix products."""

DTYPE_POLICIES: Mapping[Precision, str] = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
"""Keras' name for what computes in a precision; the others are its `float32`."""

PRECISION_OF_TYPE: Mapping[str, Precision] = {"bfloat16": "bf16", "float16": "fp16"}
"""The precision of products whose operands have a type, by its name; others have none."""

MIN_CAPABILITY: Mapping[Precision, float] = {"tf32": 8.0, "bf16": 8.0}
"""The first compute capability of NVIDIA's GPUs with the number format: Ampere's."""

_SHAPE = re.compile(r"(?P<backend>[a-z0-9_]+)/(?P<kernel>[a-z0-9_]+)(?P<options>(\+[a-z0-9_]+)*)")


class ImplementationError(ValueError):
    """A text that names no implementation."""

    def __init__(self, expected: str, received: str) -> None:
        super().__init__(expected, received)
        self.expected = expected
        self.received = received

    def __str__(self) -> str:
        return f"expected {self.expected}; received {self.received}"


@dataclass(frozen=True, slots=True, order=True)
class Implementation:
    """A backend, a kernel and options, sorted: `tensorflow/portable+xla`."""

    backend: str
    kernel: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "+".join((f"{self.backend}/{self.kernel}", *self.options))

    @property
    def kernel_text(self) -> str:
        """Kernel and options as in `kernel_asked`: without the backend, and without `again`."""
        return "+".join((self.kernel, *(o for o in self.options if o != "again")))

    @property
    def process(self) -> str:
        """The trainer process that may run it: the backend's, or a separate one for `+again`."""
        return f"{self.backend}+again" if "again" in self.options else self.backend

    @property
    def precision(self) -> Precision:
        """The number format of matrix products, by its option; `float32` by default."""
        return next((name for name in PRECISIONS if name in self.options), "float32")


def is_kernel_as_asked(asked: str, ran: str) -> bool:
    """Return True if the kernel that ran agrees with the one that was asked for.

    Both are texts as `Implementation.kernel_text`. `auto` leaves the choice to Keras: whatever ran
    agrees with it.
    """
    return ran == asked or asked.partition("+")[0] == AUTO


def parse_implementation(text: str) -> Implementation:
    """Read `backend/kernel[+option…]` with any names: a user's own workload chooses its own.

    Raise `ImplementationError` if the text is not of that form, or repeats an option. For a
    built-in workload use `workloads.backends.registry.parse_known_implementation`.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ImplementationError(
            "backend/kernel[+option…], such as tensorflow/portable+xla", repr(text)
        )
    options = tuple(sorted(filter(None, match["options"].split("+"))))
    if len(set(options)) != len(options):
        raise ImplementationError("each option once", repr(text))
    return Implementation(match["backend"], match["kernel"], options)
