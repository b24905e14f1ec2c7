"""Outputs and gradients of a Keras model as arrays, on the backend of this process."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from __future__ import annotations

from typing import Any

import keras
import numpy as np


def differentiate(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    """Return outputs, and the gradients of `(outputs * towards).sum()` by inputs and weights."""
    backend = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    outputs, by_inputs, by_weights = backend(model, inputs, towards)
    return as_array(outputs), as_array(by_inputs), [as_array(gradient) for gradient in by_weights]


def as_array(tensor: Any) -> Any:
    """Convert a tensor of any backend and precision to a float32 array."""
    return np.array(keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")))


def _tensorflow(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    import tensorflow as tf

    def differentiate(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.cast(model(inputs, training=True), tf.float32)
            product = tf.reduce_sum(outputs * towards)
        weights = [variable.value for variable in model.trainable_variables]
        return outputs, tape.gradient(product, [inputs, *weights])

    differentiated = tf.function(differentiate, jit_compile=False)
    outputs, (by_inputs, *by_weights) = differentiated(tf.constant(inputs))
    return outputs, by_inputs, by_weights


def _jax(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    import jax
    import jax.numpy as jnp

    others = [variable.value for variable in model.non_trainable_variables]

    def product(trainable: Any, inputs: Any) -> Any:
        outputs, _ = model.stateless_call(trainable, others, inputs, training=True)
        outputs = outputs.astype(jnp.float32)
        return (outputs * towards).sum(), outputs

    trainable = [variable.value for variable in model.trainable_variables]
    differentiate = jax.jit(jax.value_and_grad(product, (0, 1), has_aux=True))
    (_, outputs), (by_weights, by_inputs) = differentiate(trainable, jnp.asarray(inputs))
    return outputs, by_inputs, by_weights


def _torch(model: Any, inputs: Any, towards: Any) -> tuple[Any, Any, list[Any]]:
    import torch

    weights = [variable.value for variable in model.trainable_variables]
    variable = torch.tensor(inputs, device=weights[0].device, requires_grad=True)
    outputs = model(variable, training=True).float()
    product = (outputs * torch.tensor(towards, device=outputs.device)).sum()
    by_inputs, *by_weights = torch.autograd.grad(product, [variable, *weights])
    return outputs.detach(), by_inputs, by_weights
