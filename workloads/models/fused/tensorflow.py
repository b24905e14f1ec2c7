"""TensorFlow's `CudnnRNNV3`: all four cells, on a GPU only. See `workloads.models.fused`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from workloads.models.canonical_weights import StackShape
from workloads.models.fused import LEFT_PADDED, SCOPE

if TYPE_CHECKING:
    from workloads.models.fused.fused_stack import FusedStack


def run_stack(
    layer: FusedStack,
    sequences: Any,
    states: tuple[Any, ...],
    lengths: Any,
    is_right_padded: Any,
    *,
    training: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs and final states."""
    # The states' memory is cuDNN's (pseudo-layers, batch, units), which `time_major=False` does not
    # transpose. `is_training` prepares the backward pass, and is always on, as in Keras.
    shape = layer.stack_shape
    batch, steps = tf.unstack(tf.shape(sequences)[:2])
    if lengths is None:
        lengths = tf.fill([batch], steps)
    else:
        tf.debugging.Assert(is_right_padded, [LEFT_PADDED])
    labelled = [tf.reshape(state, (batch, shape.pseudo_layers, shape.units)) for state in states]
    with tf.name_scope(SCOPE):
        outputs, *final, _, _ = tf.raw_ops.CudnnRNNV3(
            input=sequences,
            input_h=labelled[0],
            input_c=labelled[1] if shape.cell == "lstm" else tf.constant(0, sequences.dtype),
            params=_params(shape, layer.weights_buffer.value),
            sequence_lengths=lengths,
            rnn_mode=shape.cell,
            input_mode="linear_input",
            direction="bidirectional" if shape.bidirectional else "unidirectional",
            dropout=layer.dropout if training else 0.0,
            seed=layer.seed,
            is_training=True,
            time_major=False,
        )
    return outputs, tuple(
        tf.reshape(state, (shape.pseudo_layers, -1, shape.units)) for state in final[: len(states)]
    )


def _params(shape: StackShape, weights: Any) -> Any:
    """Return the buffer, with a gradient of zero for the recurrent biases that are not trained."""
    if shape.trained_biases is None:
        return tf.convert_to_tensor(weights)
    matrices, biases = tf.split(weights, [shape.matrices_size, shape.trained_biases.size])
    return tf.concat([matrices, biases * tf.constant(shape.trained_biases, biases.dtype)], axis=0)
