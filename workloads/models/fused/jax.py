"""`jax.experimental.rnn`: the lstm cell in float32, on a GPU only. See `workloads.models.fused`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import rnn

from workloads.models.canonical_weights import StackShape
from workloads.models.fused import SCOPE, LibraryCall


def run_stack(
    call: LibraryCall,
    sequences: Any,
    weights: Any,
    states: tuple[Any, ...],
    mask: Any,
    *,
    training: bool,
) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs (batch, steps, directions·units), final states (pseudo-layers, batch, units).

    Raises:
        ValueError: a cell other than lstm, or dropout in training: JAX's call would draw the same
            mask at each step.
    """
    shape = call.shape
    if shape.cell != "lstm" or (training and call.dropout):
        raise ValueError(
            "jax.experimental.rnn: expected the lstm cell without dropout between layers; received"
            f" {shape.cell} with dropout {call.dropout}: use the portable kernel"
        )
    hidden, carry = states
    if mask is None:
        lengths = jnp.full(sequences.shape[:1], sequences.shape[1], jnp.int32)
    else:  # a compiled program cannot raise: NaN fails the trial
        hidden = jnp.where(_is_padded_right(mask), hidden, jnp.nan)
        lengths = mask.sum(axis=1, dtype=jnp.int32)
    with jax.named_scope(SCOPE):
        outputs, hidden, carry = rnn.lstm(
            sequences,
            hidden,
            carry,
            _params(shape, weights),
            lengths,
            shape.inputs,
            shape.units,
            shape.layers,
            0.0,  # dropout
            shape.bidirectional,
            jax.lax.Precision.HIGH if call.tf32 else jax.lax.Precision.HIGHEST,
        )
    return outputs, (hidden, carry)


def states_shape(shape: StackShape, batch: Any) -> tuple[Any, ...]:
    """Return the shape of the states."""
    return (shape.pseudo_layers, batch, shape.units)


def last_output(shape: StackShape, hidden: Any) -> Any:
    """Return the last layer's final hidden states: (batch, directions·units)."""
    return jnp.concatenate(list(hidden[-shape.directions :]), axis=-1)


def _params(shape: StackShape, weights: Any) -> Any:
    """Return the buffer, with a gradient of zero for the untrained recurrent biases."""
    matrices, biases = jnp.split(weights, [shape.matrices_size])
    return jnp.concatenate([matrices, jnp.where(shape.trained_biases, biases, 0)])


def _is_padded_right(mask: Any) -> Any:
    """Return True if every sequence starts with an unmasked step, and all padding follows."""
    return mask[:, 0].all() & (mask[:, 1:] <= mask[:, :-1]).all()
