"""The passes of a model on JAX."""

from typing import Any

import jax

from workloads.backends.passes import Passes


def make_passes(model: Any, *, jit: bool) -> Passes:
    """Differentiate and compile the model as a pure function of its variables."""

    def outputs(trainable: Any, others: Any, batch: Any, *, training: bool = False) -> Any:
        return model.stateless_call(trainable, others, batch, training=training)[0]

    def mean(*arguments: Any) -> Any:
        return jax.numpy.mean(outputs(*arguments, training=True).astype(jax.numpy.float32))

    def gradients(*arguments: Any) -> list[Any]:
        by_trainable, by_batch = jax.grad(mean, argnums=(0, 2))(*arguments)
        return [*by_trainable, by_batch]

    forward: Any = outputs
    backward: Any = gradients
    if jit:
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
