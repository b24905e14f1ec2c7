"""`jax.experimental.rnn`: the lstm cell in float32, on a GPU only. See `StackCall`."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import rnn

from workloads.backends.stack_call import SCOPE, StackCall


def run_stack(call: StackCall) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs and final states; `ValueError` for other cells, or dropout in training."""
    shape = call.shape
    if shape.cell != "lstm" or (call.training and call.dropout):
        raise ValueError(
            "jax.experimental.rnn has only the lstm cell without dropout between layers, not"
            f" {shape.cell} with dropout {call.dropout}: use the portable kernel"
        )
    sequences, lengths = call.sequences, call.lengths
    hidden, carry = call.states
    if lengths is None:
        lengths = jnp.full(sequences.shape[:1], sequences.shape[1], jnp.int32)
    else:  # a compiled program cannot raise: NaN fails the trial
        hidden = jnp.where(call.is_right_padded, hidden, jnp.nan)
    # The untrained recurrent biases get a gradient of zero.
    matrices, biases = jnp.split(call.weights, [shape.matrices_size])
    weights = jnp.concatenate([matrices, jnp.where(shape.trained_biases, biases, 0)])
    with jax.named_scope(SCOPE):
        outputs, hidden, carry = rnn.lstm(
            sequences,
            hidden,
            carry,
            weights,
            lengths,
            shape.inputs,
            shape.units,
            shape.layers,
            0.0,  # dropout
            shape.bidirectional,
        )  # with the configured precision
    return outputs, (hidden, carry)
