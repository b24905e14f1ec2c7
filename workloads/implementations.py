"""Implementations that can be compared: the grammar `backend/kernel[+option…]`."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Precision: TypeAlias = Literal["float32", "tf32", "bf16", "fp16"]

_NAMES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
BACKENDS: Mapping[str, str] = _NAMES["backends"]
"""Backend -> how to install it. The backend is also the package that the node must have."""

KERNELS: Mapping[str, str] = _NAMES["kernels"]
OPTIONS: Mapping[str, str] = _NAMES["options"]
_PRECISIONS: tuple[Precision, ...] = ("tf32", "bf16", "fp16")
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
    """A backend, a kernel and options: `tensorflow/portable+xla`. Options are kept sorted."""

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
        """The number format of matrix products: that of its option, `float32` by default."""
        return next((name for name in _PRECISIONS if name in self.options), "float32")

    @property
    def eager(self) -> bool:
        """True without any graph: on PyTorch, and on any other backend with `+eager`."""
        return self.backend == "torch" or "eager" in self.options

    @property
    def jit(self) -> bool:
        """True if XLA compiles the program, always explicit; JAX without it would be eager."""
        return "xla" in self.options or (self.backend == "jax" and not self.eager)


def parse_implementation(text: str, *, known_only: bool = True) -> Implementation:
    """Read `backend/kernel[+option…]`; a user's own workload may use any name.

    Raise `ImplementationError` if the text is not of that form, repeats an option, or
    (`known_only`) has an unknown name; the message suggests the nearest one.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ImplementationError(
            "backend/kernel[+option…], such as tensorflow/portable+xla", repr(text)
        )
    options = tuple(sorted(filter(None, match["options"].split("+"))))
    if len(set(options)) != len(options):
        raise ImplementationError("each option once", repr(text))
    if known_only:
        _expect_known("a backend", match["backend"], BACKENDS)
        _expect_known("a kernel", match["kernel"], KERNELS)
        for option in options:
            _expect_known("an option", option, OPTIONS)
        if len(chosen := [o for o in options if o in _PRECISIONS]) > 1:
            raise ImplementationError(
                "one precision at most", f"{' and '.join(chosen)} in {text!r}"
            )
    return Implementation(match["backend"], match["kernel"], options)


def _expect_known(kind: str, name: str, known_names: Mapping[str, str]) -> None:
    if name in known_names:
        return
    near = difflib.get_close_matches(name, known_names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ImplementationError(f"{kind} among {', '.join(known_names)}", f"{name!r}{hint}")
