"""The passes of a model on TensorFlow."""

from typing import Any

import tensorflow as tf

from workloads.backends.passes import Passes


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
