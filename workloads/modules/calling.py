"""The call of a PyTorch module with the inputs of a batch. Imports no framework."""

from collections.abc import Mapping
from typing import Any


def call_with(module: Any, inputs: Any) -> Any:
    """Call a module with a batch: an array, or the arrays of a tuple, or of a dict by name."""
    if isinstance(inputs, Mapping):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, tuple | list) else module(inputs)
