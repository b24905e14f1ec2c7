"""What is particular to each backend: one package for each of TensorFlow, JAX and PyTorch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.backends.framework import Framework


def load_framework(backend: str) -> Framework:
    """Import and return the framework of a backend."""
    module = importlib.import_module(f"workloads.backends.{backend}.framework")
    framework: Framework = module.FRAMEWORK
    return framework
