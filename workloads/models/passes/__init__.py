"""A model's forward pass, and its forward and backward pass, as each backend runs them at best.

No optimizer, no metrics, no data pipeline: what is left is the recurrent layers. `Passes` is what
`of` returns for the backend of an implementation; each backend has a file of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

from workloads.implementations import Implementation


class Passes(Protocol):
    """Enqueues passes of one model over one batch; both may return before the device is done."""

    def forward(self, batch: Any) -> Any:
        """Outputs of `batch`, in inference mode."""

    def forward_backward(self, batch: Any) -> Any:
        """Gradients of the mean output by all trainable variables and by `batch`."""

    def place(self, batch: Any) -> Any:
        """`batch` (a NumPy array) where the device reads it without a copy."""


def make_passes(model: Any, implementation: Implementation) -> Passes:
    """The passes of a built Keras model."""
    match implementation.backend:
        case "jax":
            from workloads.models.passes.jax import JaxPasses  # noqa: PLC0415 - imports the framework

            return JaxPasses(model, implementation)
        case "torch":
            from workloads.models.passes.torch import TorchPasses  # noqa: PLC0415

            return TorchPasses(model)
        case _:
            from workloads.models.passes.tensorflow import TensorFlowPasses  # noqa: PLC0415

            return TensorFlowPasses(model, implementation)
