"""All backends by name: the folders beside this file, and backends of other installed packages.

Another package registers its `Backend` by an entry point of the group `rnnsweep.backends`
(`docs/adding/backend.md`). One that cannot be used is skipped: its reason is logged, shown by
`rnnsweep doctor`, and part of the message for a name that is unknown.
"""

import difflib
import functools
import importlib
import importlib.metadata
import logging
import pkgutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from workloads.backends.backend import Backend, invalid_reason
from workloads.implementations import (
    KERNELS,
    OPTIONS,
    PRECISIONS,
    Implementation,
    ImplementationError,
    parse_implementation,
)

GROUP = "rnnsweep.backends"
"""The group of entry points for backends of other packages."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Unusable:
    """A registered backend that was skipped, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Registered:
    backends: Mapping[str, Backend]
    unusable: tuple[Unusable, ...]


def backends() -> Mapping[str, Backend]:
    """Return all usable backends by name, in their order in lists and tables."""
    return _registered().backends


def unusable_backends() -> tuple[Unusable, ...]:
    """Return the backends of other packages that cannot be used."""
    return _registered().unusable


def find_backend(name: str) -> Backend:
    """Return the backend of this name, or raise `ImplementationError`."""
    _expect_known("a backend", name, backends())
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
    _expect_known("a kernel", implementation.kernel, KERNELS)
    for option in implementation.options:
        _expect_known("an option", option, [*OPTIONS, *backend.options])
    if len(chosen := [o for o in implementation.options if o in PRECISIONS]) > 1:
        raise ImplementationError("one precision at most", f"{' and '.join(chosen)} in {text!r}")
    return implementation


def register(
    built_in: Iterable[Backend], found: Iterable[tuple[str, Backend | Exception]]
) -> tuple[Mapping[str, Backend], tuple[Unusable, ...]]:
    """Return the usable backends by name, and the reasons of the unusable ones.

    Each found backend comes with the name of its registration, or with the error of its import.
    """
    by_name = {backend.name: backend for backend in built_in}
    unusable: list[Unusable] = []
    for name, backend in found:
        if isinstance(backend, Exception):
            unusable.append(Unusable(name, f"{type(backend).__name__}: {backend}"))
        elif reason := invalid_reason(backend):
            unusable.append(Unusable(name, reason))
        elif backend.name in by_name:
            unusable.append(Unusable(name, f"there is another backend {backend.name!r}"))
        else:
            by_name[backend.name] = backend
    order = sorted(by_name.values(), key=lambda backend: (backend.rank, backend.name))
    return MappingProxyType({backend.name: backend for backend in order}), tuple(unusable)


@functools.cache
def _registered() -> _Registered:
    by_name, unusable = register(_own_backends(), _backends_of_packages())
    for skipped in unusable:
        _LOG.warning("backend %s is left out: %s", skipped.name, skipped.reason)
    return _Registered(by_name, unusable)


def _own_backends() -> Iterator[Backend]:
    """Yield the `BACKEND` of each folder beside this file."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.ispkg:
            yield importlib.import_module(f"{package}.{module.name}").BACKEND


def _backends_of_packages() -> Iterator[tuple[str, Backend | Exception]]:
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            yield entry.name, entry.load()
        except Exception as error:  # noqa: BLE001 - whatever another package raises
            yield entry.name, error


def _expect_known(kind: str, name: str, known_names: Collection[str]) -> None:
    if name in known_names:
        return
    near = difflib.get_close_matches(name, known_names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    skipped = next((s for s in unusable_backends() if s.name == name), None)
    if kind == "a backend" and skipped is not None:
        hint = f" (it is registered, but cannot be used: {skipped.reason})"
    raise ImplementationError(f"{kind} among {', '.join(known_names)}", f"{name!r}{hint}")
