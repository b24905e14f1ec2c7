"""Passes on JAX: the model as a pure function of its variables, differentiated and compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from workloads.implementations import Implementation


class BackendPasses:
    """Passes on JAX. See `workloads.models.passes.Passes`."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        def forward(trainable: Any, others: Any, batch: Any) -> Any:
            return model.stateless_call(trainable, others, batch, training=False)[0]

        def mean(trainable: Any, others: Any, batch: Any) -> Any:
            outputs, _ = model.stateless_call(trainable, others, batch, training=True)
            return jnp.mean(outputs.astype(jnp.float32))

        self._model = model
        self._run_forward, self.run_both = forward, jax.grad(mean, argnums=(0, 2))
        if implementation.jit:
            self._run_forward, self.run_both = jax.jit(forward), jax.jit(self.run_both)

    def place(self, batch: Any) -> Any:
        """Move a batch to the default device."""
        return jax.device_put(batch)

    def forward(self, batch: Any) -> Any:
        """Return the outputs of `batch`, in inference mode."""
        return self._run_forward(*self.variables, batch)

    def forward_backward(self, batch: Any) -> Any:
        """Return the gradients of the mean output by all trainable variables and by `batch`."""
        return self.run_both(*self.variables, batch)

    @property
    def variables(self) -> tuple[list[Any], list[Any]]:
        """Values of the trainable and of the other variables."""
        model = self._model
        return (
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in model.non_trainable_variables],
        )
