"""The passes of a model on TensorFlow."""

from typing import Any

import tensorflow as tf

from workloads.backends.passes import (
    Batch,
    CheckedModel,
    OutputsAndGradients,
    Passes,
    unmasked_outputs,
)


def make_passes(model: Any, *, eager: bool, jit: bool) -> Passes:
    """Make a `tf.function` of each pass, compiled by XLA on request."""

    def forward(batch: Any) -> Any:
        return model(batch, training=False)

    def forward_backward(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            mean = tf.reduce_mean(tf.cast(model(batch, training=True), tf.float32))
        weights = [variable.value for variable in model.trainable_variables]
        return tape.gradient(mean, [*weights, batch])

    if not eager:
        forward, forward_backward = (
            tf.function(function, jit_compile=jit, reduce_retracing=False)
            for function in (forward, forward_backward)
        )
    return Passes(model, forward, forward_backward, lambda batch: tf.identity(tf.constant(batch)))


def outputs_and_gradients(checked: CheckedModel, batch: Batch) -> OutputsAndGradients:
    """Run the model and the gradients of its loss in one program."""
    model, weights = checked.model, [v.value for v in checked.model.trainable_variables]

    def forward_backward(batch: Batch) -> tuple[list[Any], list[Any]]:
        with tf.GradientTape() as tape:
            outputs = model(batch[0], training=False)
            loss = checked.loss(outputs, batch)
        gradients = tape.gradient(loss, weights)  # by an embedding: one row per token
        dense = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        return unmasked_outputs(outputs), dense

    if not checked.is_eager:
        forward_backward = tf.function(forward_backward, jit_compile=checked.is_compiled)
    return OutputsAndGradients(*forward_backward(batch))
