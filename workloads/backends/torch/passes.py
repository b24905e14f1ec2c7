"""The passes of a model on PyTorch."""

from typing import Any

import torch

from workloads.backends.passes import (
    Batch,
    CheckedModel,
    OutputsAndGradients,
    Passes,
    unmasked_outputs,
)


def make_passes(model: Any) -> Passes:
    """Run the passes eagerly, with autograd."""
    weights = [variable.value for variable in model.trainable_variables]

    def forward(batch: Any) -> Any:
        with torch.no_grad():
            return model(batch, training=False)

    def forward_backward(batch: Any) -> Any:
        leaf = batch.detach().requires_grad_()
        mean = model(leaf, training=True).float().mean()
        return torch.autograd.grad(mean, [*weights, leaf])

    return Passes(
        model,
        forward,
        forward_backward,
        lambda batch: torch.as_tensor(batch).to(weights[0].device),
    )


def outputs_and_gradients(checked: CheckedModel, batch: Batch) -> OutputsAndGradients:
    """Run the model eagerly, with autograd."""
    weights = [variable.value for variable in checked.model.trainable_variables]
    outputs = checked.model(batch[0], training=False)
    loss = checked.loss(outputs, batch)
    gradients = torch.autograd.grad(loss, weights, allow_unused=True) if weights else ()
    with torch.no_grad():
        return OutputsAndGradients(unmasked_outputs(outputs), gradients)
