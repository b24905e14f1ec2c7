"""A model's passes, forward and both ways, without optimizer, metric and data pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workloads.implementations import Implementation


@dataclass(frozen=True, slots=True)
class Passes:
    """Passes of one model over one batch; they may return before the device has finished."""

    model: Any
    forward: Callable[[Any], Any]
    """Returns the outputs of a batch, in inference mode."""

    forward_backward: Callable[[Any], Any]
    """Returns the gradients of the mean output by each trainable variable, then by the batch."""

    place: Callable[[Any], Any]
    """Moves a batch (a NumPy array) to where the device reads it without a copy."""


def make_passes(model: Any, implementation: Implementation) -> Passes:
    """Return the passes of a built Keras model."""
    makers = {"jax": _jax_passes, "tensorflow": _tensorflow_passes, "torch": _torch_passes}
    return makers[implementation.backend](model, implementation)


def _jax_passes(model: Any, implementation: Implementation) -> Passes:
    """Differentiate and compile the model as a pure function of its variables."""
    import jax  # noqa: PLC0415 - the framework of this process

    def outputs(trainable: Any, others: Any, batch: Any, *, training: bool = False) -> Any:
        return model.stateless_call(trainable, others, batch, training=training)[0]

    def mean(*arguments: Any) -> Any:
        return jax.numpy.mean(outputs(*arguments, training=True).astype(jax.numpy.float32))

    def gradients(*arguments: Any) -> list[Any]:
        by_trainable, by_batch = jax.grad(mean, argnums=(0, 2))(*arguments)
        return [*by_trainable, by_batch]

    forward: Any = outputs
    backward: Any = gradients
    if implementation.jit:
        forward, backward = jax.jit(outputs), jax.jit(gradients)

    def values() -> list[list[Any]]:
        kinds = (model.trainable_variables, model.non_trainable_variables)
        return [[variable.value for variable in variables] for variables in kinds]

    return Passes(
        model,
        lambda batch: forward(*values(), batch),
        lambda batch: backward(*values(), batch),
        jax.device_put,
    )


def _tensorflow_passes(model: Any, implementation: Implementation) -> Passes:
    """Make a `tf.function` of each pass, compiled by XLA on request."""
    import tensorflow as tf  # noqa: PLC0415 - the framework of this process

    def forward(batch: Any) -> Any:
        return model(batch, training=False)

    def forward_backward(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            mean = tf.reduce_mean(tf.cast(model(batch, training=True), tf.float32))
        weights = [variable.value for variable in model.trainable_variables]
        return tape.gradient(mean, [*weights, batch])

    if not implementation.eager:
        forward, forward_backward = (
            tf.function(function, jit_compile=implementation.jit, reduce_retracing=False)
            for function in (forward, forward_backward)
        )
    return Passes(model, forward, forward_backward, lambda batch: tf.identity(tf.constant(batch)))


def _torch_passes(model: Any, implementation: Implementation) -> Passes:
    """Run the passes eagerly, with autograd."""
    import torch  # noqa: PLC0415 - the framework of this process

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
