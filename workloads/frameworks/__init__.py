"""TensorFlow, JAX and PyTorch behind one interface, one module for each backend."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.frameworks.framework import Framework


def load_framework(backend: str) -> Framework:
    """Import and return the framework of a backend."""
    framework: Framework = importlib.import_module(f"workloads.frameworks.{backend}").FRAMEWORK
    return framework
