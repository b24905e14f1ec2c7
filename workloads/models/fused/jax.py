"""`jax.experimental.rnn`: the lstm cell in float32, on a GPU only. See `workloads.models.fused`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.experimental import rnn

from workloads.models.fused import SCOPE

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
    """Return outputs and final states; `ValueError` for other cells, or dropout in training."""
    shape = layer.stack_shape
    if shape.cell != "lstm" or (training and layer.dropout):
        raise ValueError(
            "jax.experimental.rnn: expected the lstm cell without dropout between layers; received"
            f" {shape.cell} with dropout {layer.dropout}: use the portable kernel"
        )
    hidden, carry = states
    if lengths is None:
        lengths = jnp.full(sequences.shape[:1], sequences.shape[1], jnp.int32)
    else:  # a compiled program cannot raise: NaN fails the trial
        hidden = jnp.where(is_right_padded, hidden, jnp.nan)
    # The untrained recurrent biases get a gradient of zero.
    matrices, biases = jnp.split(layer.weights_buffer.value, [shape.matrices_size])
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
