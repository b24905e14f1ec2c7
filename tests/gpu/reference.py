"""Recurrent stacks by Keras' equations in NumPy float64, without code of any implementation."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.eligibility import Cell
from workloads.models.canonical_weights import CanonicalLayer

Array = NDArray[np.float64]
State = tuple[Array, Array]
"""The hidden state and the carry of one direction of one layer, each (batch, units)."""


def run_stack(
    cell: Cell,
    stack: Sequence[CanonicalLayer],
    inputs: Array,
    counts: Array,
    directions: int,
    initial: Sequence[State] | None = None,
) -> tuple[Array, Array, list[State]]:
    """Return outputs (batch, steps, directions · units), 0 at padding; the last; final states."""
    # `inputs` are (batch, steps, features), `counts` (batch, steps, 1): 0 for padding on the right.
    outputs, finals = inputs, list[State]()
    for first in range(0, len(stack), directions):
        in_order = []
        for number in range(first, first + directions):
            in_time = slice(None, None, -1 if number > first else None)
            layer, begin = stack[number], initial[number] if initial else None
            steps = outputs[:, in_time], counts[:, in_time]
            states, final = _run_layer(cell, layer, *steps, begin)
            in_order.append(states[:, in_time])
            finals.append(final)
        outputs = np.concatenate(in_order, axis=-1) * counts
    last = np.concatenate([hidden for hidden, _ in finals[-directions:]], axis=-1)
    return outputs, last, finals


def _run_layer(
    cell: Cell, layer: CanonicalLayer, inputs: Array, counts: Array, initial: State | None
) -> tuple[Array, State]:
    """Return the hidden state after each step, and the final state; padded steps keep the state."""
    zeros = np.zeros((len(inputs), len(layer.recurrent_kernel)))
    hidden, carry = initial or (zeros, zeros)
    states = []
    for t in range(inputs.shape[1]):
        next_hidden, next_carry = _step(cell, layer, inputs[:, t], hidden, carry)
        hidden = np.where(counts[:, t], next_hidden, hidden)
        carry = np.where(counts[:, t], next_carry, carry)
        states.append(hidden)
    return np.stack(states, axis=1), (hidden, carry)


def _step(
    cell: Cell, layer: CanonicalLayer, x: Array, hidden: Array, carry: Array
) -> tuple[Array, Array]:
    bias = np.atleast_2d(np.asarray(layer.bias))
    by_x, by_state = x @ layer.kernel + bias[0], hidden @ layer.recurrent_kernel
    if cell == "lstm":
        i, f, g, o = np.split(by_x + by_state, 4, axis=-1)
        carry = _sigmoid(f) * carry + _sigmoid(i) * np.tanh(g)
        return _sigmoid(o) * np.tanh(carry), carry
    if cell == "gru":
        (xz, xr, xh), (hz, hr, hh) = (np.split(a, 3, -1) for a in (by_x, by_state + bias[1]))
        z, r = _sigmoid(xz + hz), _sigmoid(xr + hr)
        return z * hidden + (1 - z) * np.tanh(xh + r * hh), carry
    total = by_x + by_state
    return np.tanh(total) if cell == "rnn_tanh" else np.maximum(total, 0), carry


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-values))
