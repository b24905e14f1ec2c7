"""The fingerprint of a PyTorch module: what all arms of a block must agree on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from workloads.fingerprints import make_fingerprint
from workloads.modules.module_run import ModuleRun
from workloads.modules.own_module import set_mode
from workloads.protocol import Fingerprint


def fingerprint_of(run: ModuleRun) -> Fingerprint:
    """Return outputs and gradients at the initial weights, over the first batch, without dropout.

    A module that is not trained has the gradients of its mean output. The batch is a whole
    one: `torch.compile` would take another size for a sign that sizes change. The run is left as it
    was.
    """
    start = run.state()
    run.reset_carried_state()
    batch = run.first_batch()
    parameters = [p for p in run.module.parameters() if p.requires_grad]
    try:
        with _without_dropout(run.module):
            with run.autocast():
                outputs = run.predict(batch[0])
                tensors = [t for t in torch.utils._pytree.tree_leaves(outputs) if _is_float(t)]
                loss = _mean(tensors) if run.optimizer is None else run.loss_of(outputs, batch)
            has_gradients = bool(parameters) and loss.requires_grad
            gradients = (
                torch.autograd.grad(loss, parameters, allow_unused=True)
                if has_gradients
                else [None] * len(parameters)
            )
    finally:
        run.restore(start)
        run.forget_compiled()
    return make_fingerprint(
        [_array(tensor) for tensor in tensors],
        [
            np.zeros(tuple(parameter.shape)) if gradient is None else _array(gradient)
            for parameter, gradient in zip(parameters, gradients, strict=True)
        ],
    )


@contextmanager
def _without_dropout(module: nn.Module) -> Iterator[None]:
    """Put a module in inference mode, but its recurrent layers in training mode without dropout.

    cuDNN has gradients of recurrent layers in training mode only.
    """
    set_mode(module, training=False)
    layers = [layer for layer in module.modules() if isinstance(layer, nn.RNNBase)]
    rates = [layer.dropout for layer in layers]
    for layer in layers:
        set_mode(layer, training=True)
        layer.dropout = 0.0
    try:
        yield
    finally:
        for layer, rate in zip(layers, rates, strict=True):
            layer.dropout = rate
        set_mode(module, training=True)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _mean(tensors: list[Any]) -> Any:
    """Return the sum of the means of several outputs."""
    return sum(tensor.float().mean() for tensor in tensors)


def _array(tensor: Any) -> NDArray[Any]:
    dense = tensor.to_dense() if tensor.is_sparse else tensor  # the gradient of a sparse embedding
    return np.asarray(dense.detach().double().cpu(), np.float64)
