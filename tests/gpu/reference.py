"""The reference for all implementations: the outputs of recurrent stacks, in NumPy float64.

It follows the equations of Keras' documentation (GRU with `reset_after`) and uses the
canonical layout of `workloads.models.canonical_weights`. It shares no code with any implementation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.eligibility import Cell
from workloads.models.canonical_weights import CanonicalLayer

Array = NDArray[np.float64]


def run_stack(
    cell: Cell, stack: Sequence[CanonicalLayer], inputs: Array, counts: Array, directions: int
) -> tuple[Array, Array]:
    """Return the outputs (batch, steps, directions · units), zero at padding, and the last ones."""
    # `inputs` are (batch, steps, features), `counts` (batch, steps, 1): 0 for padding on the right.
    outputs, states = inputs, list[Any]()
    for first in range(0, len(stack), directions):
        states = []
        for number in range(directions):
            in_time = slice(None, None, -1 if number else None)
            layer = stack[first + number]
            states.append(_run_layer(cell, layer, outputs[:, in_time], counts[:, in_time]))
        in_order = [state[:, :: -1 if number else 1] for number, state in enumerate(states)]
        outputs = np.concatenate(in_order, axis=-1) * counts
    return outputs, np.concatenate([state[:, -1] for state in states], axis=-1)


def _run_layer(cell: Cell, layer: CanonicalLayer, inputs: Array, counts: Array) -> Array:
    """Return the hidden state after each step; padded steps keep the state."""
    hidden = carry = np.zeros((len(inputs), len(layer.recurrent_kernel)))
    states = []
    for t in range(inputs.shape[1]):
        next_hidden, next_carry = _step(cell, layer, inputs[:, t], hidden, carry)
        hidden = np.where(counts[:, t], next_hidden, hidden)
        carry = np.where(counts[:, t], next_carry, carry)
        states.append(hidden)
    return np.stack(states, axis=1)


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
