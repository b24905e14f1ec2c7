"""A model's forward pass, and its forward and backward pass, in the best form of each backend.

There is no optimizer, no metric and no data pipeline: a pass is the recurrent layers alone.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from workloads.implementations import Implementation


class Passes(Protocol):
    """Passes of one model over one batch; they may return before the device has finished."""

    def forward(self, batch: Any) -> Any:
        """Return the outputs of `batch`, in inference mode."""

    def forward_backward(self, batch: Any) -> Any:
        """Return the gradients of the mean output by all trainable variables and by `batch`."""

    def place(self, batch: Any) -> Any:
        """Move `batch` (a NumPy array) to where the device reads it without a copy."""


def make_passes(model: Any, implementation: Implementation) -> Passes:
    """Return the passes of a built Keras model."""
    module = importlib.import_module(f"workloads.models.passes.{implementation.backend}")
    passes: Passes = module.BackendPasses(model, implementation)
    return passes
