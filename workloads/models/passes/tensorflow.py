"""Passes on TensorFlow: a `tf.function` and its gradient tape, compiled by XLA on request."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from workloads.implementations import Implementation


class BackendPasses:
    """Passes on TensorFlow. See `workloads.models.passes.Passes`."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        def forward(batch: Any) -> Any:
            return model(batch, training=False)

        def forward_backward(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(batch)
                mean = tf.reduce_mean(tf.cast(model(batch, training=True), tf.float32))
            weights = [variable.value for variable in model.trainable_variables]
            return tape.gradient(mean, [*weights, batch])

        self.forward, self.forward_backward = forward, forward_backward
        if not implementation.eager:
            self.forward, self.forward_backward = (
                tf.function(function, jit_compile=implementation.jit, reduce_retracing=False)
                for function in (forward, forward_backward)
            )

    def place(self, batch: Any) -> Any:
        """Move a batch to the default device."""
        return tf.identity(tf.constant(batch))
