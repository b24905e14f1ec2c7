"""Packages that imports in this process do not find, unless a user's own code asks for them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_hidden = set[str]()


def hide_package(name: str) -> None:
    """Let every later import of a package in this process fail, unless it was imported before."""
    if name not in sys.modules:
        sys.modules[name] = None  # type: ignore[assignment]
        _hidden.add(name)


@contextmanager
def visible_packages() -> Iterator[None]:
    """Let imports inside the block find all packages; those that were not used hide again."""
    for name in _hidden:
        if sys.modules.get(name) is None:
            sys.modules.pop(name, None)
    try:
        yield
    finally:
        for name in _hidden:
            sys.modules.setdefault(name, None)  # type: ignore[arg-type]
