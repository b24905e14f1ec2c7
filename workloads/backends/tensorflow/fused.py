"""TensorFlow's `CudnnRNNV3`: all four cells, on a GPU only. See `StackCall`."""

from typing import Any

import tensorflow as tf

from workloads.backends.stack_call import LEFT_PADDED, SCOPE, StackCall, StackShape


def run_stack(call: StackCall) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs and final states."""
    # The states' memory is cuDNN's (pseudo-layers, batch, units), which `time_major=False` does not
    # transpose. `is_training` prepares the backward pass, and is always on, as in Keras.
    shape, sequences, lengths = call.shape, call.sequences, call.lengths
    batch, steps = tf.unstack(tf.shape(sequences)[:2])
    if lengths is None:
        lengths = tf.fill([batch], steps)
    else:
        tf.debugging.Assert(call.is_right_padded, [LEFT_PADDED])
    labelled = [
        tf.reshape(state, (batch, shape.pseudo_layers, shape.units)) for state in call.states
    ]
    with tf.name_scope(SCOPE):
        outputs, *final, _, _ = tf.raw_ops.CudnnRNNV3(
            input=sequences,
            input_h=labelled[0],
            input_c=labelled[1] if shape.cell == "lstm" else tf.constant(0, sequences.dtype),
            params=_params(shape, call.weights),
            sequence_lengths=lengths,
            rnn_mode=shape.cell,
            input_mode="linear_input",
            direction="bidirectional" if shape.bidirectional else "unidirectional",
            dropout=call.dropout if call.training else 0.0,
            seed=call.seed,
            is_training=True,
            time_major=False,
        )
    return outputs, tuple(
        tf.reshape(state, (shape.pseudo_layers, -1, shape.units))
        for state in final[: len(call.states)]
    )


def _params(shape: StackShape, weights: Any) -> Any:
    """Return the buffer, with a gradient of zero for the recurrent biases that are not trained."""
    if shape.trained_biases is None:
        return tf.convert_to_tensor(weights)
    matrices, biases = tf.split(weights, [shape.matrices_size, shape.trained_biases.size])
    return tf.concat([matrices, biases * tf.constant(shape.trained_biases, biases.dtype)], axis=0)
