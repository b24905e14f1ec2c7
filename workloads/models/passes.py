"""A model's forward pass, and its forward and backward pass, in the best form of each backend.

There is no optimizer, no metric and no data pipeline: a pass is the recurrent layers alone.
"""

from __future__ import annotations

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
    kinds: dict[str, Any] = {
        "jax": JaxPasses,
        "tensorflow": _TensorFlowPasses,
        "torch": TorchPasses,
    }
    passes: Passes = kinds[implementation.backend](model, implementation)
    return passes


class JaxPasses:
    """The model as a pure function of its variables, differentiated and compiled."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        import jax  # noqa: PLC0415 - the framework of this process

        def forward(trainable: Any, others: Any, batch: Any) -> Any:
            return model.stateless_call(trainable, others, batch, training=False)[0]

        def mean(trainable: Any, others: Any, batch: Any) -> Any:
            outputs, _ = model.stateless_call(trainable, others, batch, training=True)
            return jax.numpy.mean(outputs.astype(jax.numpy.float32))

        self._model, self.place = model, jax.device_put
        self._run_forward, self.run_both = forward, jax.grad(mean, argnums=(0, 2))
        if implementation.jit:
            self._run_forward, self.run_both = jax.jit(forward), jax.jit(self.run_both)

    def forward(self, batch: Any) -> Any:
        """See `Passes`."""
        return self._run_forward(*self.variables, batch)

    def forward_backward(self, batch: Any) -> Any:
        """See `Passes`."""
        return self.run_both(*self.variables, batch)

    @property
    def variables(self) -> tuple[list[Any], list[Any]]:
        """Values of the trainable and of the other variables."""
        model = self._model
        return (
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in model.non_trainable_variables],
        )


class _TensorFlowPasses:
    """A `tf.function` and its gradient tape, compiled by XLA on request."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        import tensorflow as tf  # noqa: PLC0415 - the framework of this process

        def forward(batch: Any) -> Any:
            return model(batch, training=False)

        def forward_backward(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(batch)
                mean = tf.reduce_mean(tf.cast(model(batch, training=True), tf.float32))
            weights = [variable.value for variable in model.trainable_variables]
            return tape.gradient(mean, [*weights, batch])

        self.place = lambda batch: tf.identity(tf.constant(batch))
        self.forward, self.forward_backward = forward, forward_backward
        if not implementation.eager:
            self.forward, self.forward_backward = (
                tf.function(function, jit_compile=implementation.jit, reduce_retracing=False)
                for function in (forward, forward_backward)
            )


class TorchPasses:
    """Eager passes, with autograd."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        import torch  # noqa: PLC0415 - the framework of this process

        self.model, self._torch = model, torch
        self._weights = [variable.value for variable in model.trainable_variables]

    def place(self, batch: Any) -> Any:
        """See `Passes`."""
        return self._torch.as_tensor(batch).to(self._weights[0].device)

    def forward(self, batch: Any) -> Any:
        """See `Passes`."""
        with self._torch.no_grad():
            return self.model(batch, training=False)

    def forward_backward(self, batch: Any) -> Any:
        """See `Passes`."""
        leaf = batch.detach().requires_grad_()
        mean = self.model(leaf, training=True).float().mean()
        return self._torch.autograd.grad(mean, [*self._weights, leaf])
