"""Masks that are known on the host, so that no step waits for the GPU to read one.

cuDNN takes the lengths of masked sequences from the host. Keras computes a mask on the GPU: in the
graph of a model, the mask of an `Embedding` or `Masking` layer is made by a few operations on the
model's inputs. The feed still has these inputs on the host. Each of the operations is computed
there, too, and its result goes with the tensor of the GPU through the model. A mask that is made in
any other way is copied from the GPU (`workloads.backends.torch.fused`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import torch

_ON_HOST = "rnnsweep_on_host"
"""The attribute of a tensor that has its values as an array."""

_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "NotEqual": lambda operation, array, other: array != other,
    "Any": lambda operation, array: array.any(
        axis=None if operation.axis is None else tuple(operation.axis), keepdims=operation.keepdims
    ),
    "Squeeze": lambda operation, array: np.squeeze(array, axis=operation.axis),
}
"""What makes the masks of Keras' layers, by the class of the operation in a model's graph."""


def remember_on_host(tensor: torch.Tensor, array: Any) -> torch.Tensor:
    """Return a tensor, which keeps the array of its values."""
    setattr(tensor, _ON_HOST, array)
    return tensor


def keep_masks(model: Any) -> None:
    """Let the operations of a built model that make masks run on the host as well."""
    for layer in model._flatten_layers():
        graph = getattr(layer, "_functional", layer)  # inside a Sequential
        if not hasattr(graph, "_convert_inputs_to_tensors"):
            continue
        graph._convert_inputs_to_tensors = _ConvertedInputs(graph._convert_inputs_to_tensors)
        for operation in graph.operations:
            if type(operation).__name__ in _OPERATIONS and not isinstance(
                operation, keras.layers.Layer
            ):
                operation.call = _OnBoth(operation)


def padding_on_host(mask: Any) -> tuple[torch.Tensor, bool] | None:
    """Return the lengths of the sequences of a mask, and whether all padding is behind them.

    None if the mask is not known on the host.
    """
    known = getattr(mask, _ON_HOST, None)
    if known is None:
        return None
    is_right_padded = bool(known[:, 0].all() and not (known[:, 1:] & ~known[:, :-1]).any())
    return torch.from_numpy(known.sum(axis=1)), is_right_padded


class _ConvertedInputs:
    """Keras' conversion of a model's inputs to their types, which keeps the arrays on the host."""

    def __init__(self, convert: Callable[[list[Any]], list[Any]]) -> None:
        self._convert = convert

    def __call__(self, inputs: list[Any]) -> list[Any]:
        converted = self._convert(inputs)
        for given, tensor in zip(inputs, converted, strict=True):
            array = getattr(given, _ON_HOST, None)
            if array is not None and tensor is not given:
                name = keras.backend.standardize_dtype(tensor.dtype)
                if name != "bfloat16":  # which NumPy does not have
                    remember_on_host(tensor, array.astype(name))
        return converted


class _OnBoth:
    """The call of an operation, also on the host if its first argument is known there."""

    def __init__(self, operation: Any) -> None:
        self._operation, self._call = operation, operation.call
        self._on_host = _OPERATIONS[type(operation).__name__]

    def __call__(self, tensor: Any, *others: Any) -> Any:
        result = self._call(tensor, *others)
        array = getattr(tensor, _ON_HOST, None)
        if array is not None and all(isinstance(other, int | float) for other in others):
            remember_on_host(result, self._on_host(self._operation, array, *others))
        return result
