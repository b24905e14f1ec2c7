"""The passes of a model on JAX."""

from typing import Any

import jax
import keras

from workloads.backends.passes import (
    Batch,
    CheckedModel,
    OutputsAndGradients,
    Passes,
    unmasked_outputs,
)


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


def outputs_and_gradients(checked: CheckedModel, batch: Batch) -> OutputsAndGradients:
    """Differentiate the loss as a pure function of the model's variables."""
    model = checked.model
    kinds = (model.trainable_variables, model.non_trainable_variables)
    if model.compiled:
        model._symbolic_build(data_batch=batch)  # as `fit` does: a loss has variables of its own

    def loss(trainable: Any, others: Any, batch: Batch) -> tuple[Any, list[Any]]:
        state = [*zip(kinds[0], trainable, strict=True), *zip(kinds[1], others, strict=True)]
        with keras.StatelessScope(state_mapping=state, collect_losses=True):
            outputs = model(batch[0], training=False)
            return checked.loss(outputs, batch), unmasked_outputs(outputs)

    differentiate: Any = jax.value_and_grad(loss, has_aux=True)
    if not checked.is_eager:
        differentiate = jax.jit(differentiate)
    values = [[variable.value for variable in variables] for variables in kinds]
    (_, outputs), gradients = differentiate(*values, batch)
    return OutputsAndGradients(outputs, gradients)
