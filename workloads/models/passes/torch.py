"""Passes on PyTorch: eager, with autograd."""

from __future__ import annotations

from typing import Any

import torch

from workloads.implementations import Implementation


class BackendPasses:
    """Passes on PyTorch. See `workloads.models.passes.Passes`."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        self.model = model
        self._weights = [variable.value for variable in model.trainable_variables]

    def place(self, batch: Any) -> Any:
        """Move a batch to the device of the weights."""
        return torch.as_tensor(batch).to(self._weights[0].device)

    def forward(self, batch: Any) -> Any:
        """Return the outputs of `batch`, in inference mode."""
        with torch.no_grad():
            return self.model(batch, training=False)

    def forward_backward(self, batch: Any) -> Any:
        """Return the gradients of the mean output by all trainable variables and by `batch`."""
        leaf = batch.detach().requires_grad_()
        mean = self.model(leaf, training=True).float().mean()
        return torch.autograd.grad(mean, [*self._weights, leaf])
