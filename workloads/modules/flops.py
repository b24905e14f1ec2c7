"""The floating-point operations of a PyTorch module, counted in a forward pass."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class ForwardFlops:
    """A count of the matrix products in the calls of PyTorch's own layers.

    As for Keras' models, only matrix products count, a multiplication and an addition as two
    operations. Products that the module's own code computes without a layer are not counted.
    """

    def __init__(self) -> None:
        self.total = 0

    @contextmanager
    def counting(self, module: nn.Module) -> Iterator[None]:
        """Add the operations of all calls of the module's layers inside the block."""
        hooks = [
            layer.register_forward_hook(self._make_hook(flops_of))
            for layer in module.modules()
            if (flops_of := _counter_of(layer)) is not None
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _make_hook(self, flops_of: Callable[[Any, Any, Any], int]) -> Callable[..., None]:
        def add(layer: Any, inputs: Any, outputs: Any) -> None:
            self.total += flops_of(layer, inputs, outputs)

        return add


def _counter_of(layer: nn.Module) -> Callable[[Any, Any, Any], int] | None:
    if isinstance(layer, nn.RNNBase):
        return _recurrent
    if isinstance(layer, nn.RNNCellBase):
        return lambda cell, inputs, _: 2 * _rows(inputs[0]) * _matrix_elements(cell)
    if isinstance(layer, nn.Linear):
        return lambda linear, inputs, _: 2 * _rows(inputs[0]) * linear.weight.numel()
    if isinstance(layer, _CONVOLUTIONS):
        return lambda conv, _, outputs: 2 * outputs.numel() * conv.weight[0].numel()
    return None


def _recurrent(layer: Any, inputs: Any, _: Any) -> int:
    sequences = inputs[0]
    steps = len(sequences.data) if isinstance(sequences, PackedSequence) else _rows(sequences)
    return 2 * steps * _matrix_elements(layer)


def _rows(tensor: torch.Tensor) -> int:
    """Return the number of vectors along the last axis."""
    return tensor.numel() // max(1, tensor.shape[-1])


def _matrix_elements(layer: nn.Module) -> int:
    return sum(weight.numel() for weight in layer.parameters() if weight.ndim > 1)
