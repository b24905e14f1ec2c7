"""TensorFlow's `CudnnRNNV3`: all four cells, on a GPU only. See `workloads.models.fused`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from workloads.models.canonical_weights import StackShape
from workloads.models.fused import LEFT_PADDED, SCOPE, LibraryCall


def run_stack(
    call: LibraryCall,
    sequences: Any,
    weights: Any,
    states: tuple[Any, ...],
    mask: Any,
    *,
    training: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs (batch, steps, directions·units), final states (batch, pseudo-layers, units).

    `is_training` prepares the backward pass, and is always on, as in Keras' own cuDNN layers.
    """
    shape = call.shape
    with tf.name_scope(SCOPE):
        outputs, hidden, carry, _, _ = tf.raw_ops.CudnnRNNV3(
            input=sequences,
            input_h=states[0],
            input_c=states[1] if shape.cell == "lstm" else tf.constant(0, sequences.dtype),
            params=_params(shape, weights),
            sequence_lengths=_lengths(sequences, mask),
            rnn_mode=shape.cell,
            input_mode="linear_input",
            direction="bidirectional" if shape.bidirectional else "unidirectional",
            dropout=call.dropout if training else 0.0,
            seed=call.seed,
            is_training=True,
            time_major=False,
        )
    return outputs, (hidden, carry) if shape.cell == "lstm" else (hidden,)


def states_shape(shape: StackShape, batch: Any) -> tuple[Any, ...]:
    """Return the shape of the states."""
    return (batch, shape.pseudo_layers, shape.units)


def last_output(shape: StackShape, hidden: Any) -> Any:
    """Return the last layer's final hidden states: (batch, directions·units)."""
    last = hidden[:, -shape.directions :]
    return tf.reshape(last, (-1, shape.directions * shape.units))


def _params(shape: StackShape, weights: Any) -> Any:
    """Return the buffer, with a gradient of zero for the recurrent biases that are not trained."""
    if shape.trained_biases is None:
        return tf.convert_to_tensor(weights)
    biases_size = shape.trained_biases.size
    matrices, biases = tf.split(weights, [shape.matrices_size, biases_size])
    return tf.concat([matrices, biases * tf.constant(shape.trained_biases, biases.dtype)], axis=0)


def _lengths(sequences: Any, mask: Any) -> Any:
    """Return the steps of every sequence; the step fails if the mask does not pad on the right."""
    if mask is None:
        batch, steps = tf.unstack(tf.shape(sequences)[:2])
        return tf.fill([batch], steps)
    counts = tf.cast(mask, tf.int32)
    is_padded_right = tf.reduce_all(counts[:, 0] == 1) & tf.reduce_all(
        counts[:, 1:] <= counts[:, :-1]
    )
    tf.debugging.Assert(is_padded_right, [LEFT_PADDED])
    return tf.reduce_sum(counts, axis=1)
