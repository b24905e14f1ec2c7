"""From a backend to its framework, which is imported in a trainer process only."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from workloads.backends.registry import find_backend

if TYPE_CHECKING:
    from workloads.backends.framework import Framework


@functools.cache
def load_framework(backend: str) -> Framework:
    """Import the framework of a backend, and return the same object each time."""
    light_half = find_backend(backend)
    module_name, _, class_name = light_half.framework.partition(":")
    framework: Framework = getattr(importlib.import_module(module_name), class_name)(light_half)
    return framework
