"""Passes on TensorFlow: a `tf.function` and its gradient tape, compiled by XLA on request."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from workloads.implementations import Implementation


class TensorFlowPasses:
    """Passes on TensorFlow. See `workloads.models.passes.Passes`."""

    def __init__(self, model: Any, implementation: Implementation) -> None:
        self._model = model
        eager = implementation.eager
        self.forward = self._forward if eager else self._graph(self._forward, implementation)
        self.forward_backward = (
            self._forward_and_backward
            if eager
            else self._graph(self._forward_and_backward, implementation)
        )

    def place(self, batch: Any) -> Any:
        """Move a batch to the default device."""
        return tf.identity(tf.constant(batch))

    def _graph(self, function: Any, implementation: Implementation) -> Any:
        return tf.function(function, jit_compile=implementation.jit, reduce_retracing=False)

    def _forward(self, batch: Any) -> Any:
        return self._model(batch, training=False)

    def _forward_and_backward(self, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            mean = tf.reduce_mean(tf.cast(self._model(batch, training=True), tf.float32))
        weights = [variable.value for variable in self._model.trainable_variables]
        return tape.gradient(mean, [*weights, batch])
