"""All backends by name. A new one is a folder beside this file, and a line of `_BUILT_IN`."""

import difflib
from collections.abc import Collection, Mapping
from types import MappingProxyType

from workloads.backends.backend import Backend
from workloads.backends.jax import Jax
from workloads.backends.tensorflow import TensorFlow
from workloads.backends.torch import PyTorch
from workloads.implementations import (
    KERNELS,
    OPTIONS,
    PRECISIONS,
    Implementation,
    ImplementationError,
    parse_implementation,
)

_BUILT_IN: tuple[Backend, ...] = (
    TensorFlow(),
    Jax(),
    PyTorch(),
)
"""In their order in lists and tables."""

_BY_NAME = MappingProxyType({backend.name: backend for backend in _BUILT_IN})


def backends() -> Mapping[str, Backend]:
    """Return all backends by name, in their order in lists and tables."""
    return _BY_NAME


def find_backend(name: str) -> Backend:
    """Return the backend of this name, or raise `ImplementationError`."""
    _expect_known("backends", name, backends())
    return backends()[name]


def is_compiled(implementation: Implementation) -> bool:
    """Return True if XLA compiles the program of an implementation of a known backend."""
    return find_backend(implementation.backend).is_compiled(implementation)


def all_options() -> Mapping[str, str]:
    """Return all options with their meanings: options of every backend, then of single ones."""
    options = dict(OPTIONS)
    for backend in backends().values():
        for name, meaning in backend.options.items():
            options.setdefault(name, meaning)
    return options


def parse_known_implementation(text: str) -> Implementation:
    """Read `backend/kernel[+option…]`, all of whose names must be known.

    Raise `ImplementationError`, with the nearest name, if one is not, or if there is more than one
    precision.
    """
    implementation = parse_implementation(text)
    backend = find_backend(implementation.backend)
    _expect_known("kernels", implementation.kernel, KERNELS)
    for option in implementation.options:
        _expect_known("options", option, [*OPTIONS, *backend.options])
    if len(chosen := [o for o in implementation.options if o in PRECISIONS]) > 1:
        raise ImplementationError("at most one precision", f"{' and '.join(chosen)} in {text!r}")
    return implementation


def _expect_known(kinds: str, name: str, known_names: Collection[str]) -> None:
    if name in known_names:
        return
    near = difflib.get_close_matches(name, known_names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ImplementationError(f"one of the {kinds} {', '.join(known_names)}", f"{name!r}{hint}")
