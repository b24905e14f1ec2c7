"""The reference for all implementations: recurrent stacks, forward and backward, in NumPy float64.

It follows the equations of Keras' documentation (GRU with `reset_after`) and uses the
canonical layout of `workloads.models.canonical_weights`. It shares no code with any implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workloads.eligibility import Cell
from workloads.models.canonical_weights import CanonicalLayer

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answer:
    """Outputs, and the gradients of `(outputs * towards).sum()`.

    `outputs` are zero at padded steps. `last` holds the outputs of a stack that returns no
    sequences.
    """

    outputs: Array
    last: Array
    by_inputs: Array
    by_stack: list[CanonicalLayer]


class _Layer(NamedTuple):
    """Weights or their gradients; `bias` has two rows for a GRU, one for other cells."""

    kernel: Array
    recurrent: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class _Step:
    """Values of one step that its backward pass needs."""

    hidden: Array
    carry: Array
    gates: tuple[Array, ...]
    counts: Array


def run_stack(
    cell: Cell,
    stack: Sequence[CanonicalLayer],
    inputs: NDArray[Any],
    towards: NDArray[Any],
    lengths: Sequence[int] | None = None,
    *,
    bidirectional: bool = False,
) -> Answer:
    """Compute outputs and gradients of a stack from zero states.

    Args:
        cell: the cell of all layers.
        stack: the layers in canonical order.
        inputs: (batch, steps, features).
        towards: (batch, steps, directions · units).
        lengths: valid steps of each sequence; the others are padding on the right.
        bidirectional: whether each layer has two directions, concatenated.
    """
    directions = 2 if bidirectional else 1
    layers = [_double(layer) for layer in stack]
    batch, steps, _ = inputs.shape
    upto = np.full(batch, steps) if lengths is None else np.array(lengths)
    counts = (np.arange(steps) < upto[:, None])[..., None].astype(np.float64)

    below: list[Array] = [inputs.astype(np.float64)]
    tapes: list[list[_Step]] = []
    for first in range(0, len(layers), directions):
        states = []
        for number in range(directions):
            flip = _in_time(number)
            hidden, tape = _forward(
                cell, layers[first + number], below[-1][:, flip], counts[:, flip]
            )
            states.append(hidden[:, flip])
            tapes.append(tape)
        below.append(np.concatenate(states, axis=-1) * counts)
    last = [state[:, -1 if number == 0 else 0] for number, state in enumerate(states)]

    gradient = towards.astype(np.float64) * counts
    by_layers: list[_Layer] = []
    for first in reversed(range(0, len(layers), directions)):
        parts, gradient = np.split(gradient, directions, axis=-1), np.zeros(())
        for number in reversed(range(directions)):
            flip, index = _in_time(number), first + number
            by_inputs, by_layer = _backward(
                cell,
                layers[index],
                below[first // directions][:, flip],
                tapes[index],
                parts[number][:, flip],
            )
            gradient = gradient + by_inputs[:, flip]
            by_layers.insert(0, by_layer)
    by_stack = [
        CanonicalLayer(kernel, recurrent, bias if cell == "gru" else bias[0])
        for kernel, recurrent, bias in by_layers
    ]
    return Answer(below[-1], np.concatenate(last, axis=-1), gradient, by_stack)


def _in_time(direction: int) -> slice:
    """Return the slice that puts steps in the order of a direction."""
    return slice(None, None, -1 if direction else None)


def _double(layer: CanonicalLayer) -> _Layer:
    assert layer.bias is not None
    kernel, recurrent, bias = (
        np.asarray(array, np.float64)
        for array in (layer.kernel, layer.recurrent_kernel, layer.bias)
    )
    return _Layer(kernel, recurrent, np.atleast_2d(bias))


def _forward(cell: Cell, layer: _Layer, inputs: Array, counts: Array) -> tuple[Array, list[_Step]]:
    """Compute the state after each step; padded steps keep the state."""
    hidden = carry = np.zeros((len(inputs), len(layer.recurrent)))
    states, tape = [], []
    for t in range(inputs.shape[1]):
        gates, next_hidden, next_carry = _step(cell, layer, inputs[:, t], hidden, carry)
        tape.append(_Step(hidden, carry, gates, counts[:, t]))
        hidden = np.where(counts[:, t], next_hidden, hidden)
        carry = np.where(counts[:, t], next_carry, carry)
        states.append(hidden)
    return np.stack(states, axis=1), tape


def _step(
    cell: Cell, layer: _Layer, x: Array, hidden: Array, carry: Array
) -> tuple[tuple[Array, ...], Array, Array]:
    """Return gates, the next hidden state and the next carry."""
    by_x, by_state = x @ layer.kernel + layer.bias[0], hidden @ layer.recurrent
    if cell == "lstm":
        i, f, g, o = np.split(by_x + by_state, 4, axis=-1)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        carry = f * carry + i * g
        return (i, f, g, o, carry), o * np.tanh(carry), carry
    if cell == "gru":
        (xz, xr, xh), (hz, hr, hh) = (
            np.split(a, 3, axis=-1) for a in (by_x, by_state + layer.bias[1])
        )
        z, r = _sigmoid(xz + hz), _sigmoid(xr + hr)
        n = np.tanh(xh + r * hh)
        return (z, r, n, hh), z * hidden + (1 - z) * n, carry
    total = by_x + by_state
    return (total,), np.tanh(total) if cell == "rnn_tanh" else np.maximum(total, 0), carry


def _backward(
    cell: Cell, layer: _Layer, inputs: Array, tape: list[_Step], towards: Array
) -> tuple[Array, _Layer]:
    """Compute gradients by inputs and weights, from the last step to the first."""
    by_inputs = np.zeros_like(inputs)
    kernel, recurrent = np.zeros_like(layer.kernel), np.zeros_like(layer.recurrent)
    bias = np.zeros_like(layer.bias)
    by_hidden = by_carry = np.zeros_like(tape[0].hidden)
    for t, step in reversed(list(enumerate(tape))):
        arriving = (by_hidden + towards[:, t]) * step.counts
        by_input_product, by_state_product, direct, earlier = _step_back(
            cell, step, arriving, by_carry * step.counts
        )
        by_inputs[:, t] = by_input_product @ layer.kernel.T
        kernel += inputs[:, t].T @ by_input_product
        recurrent += step.hidden.T @ by_state_product
        bias[0] += by_input_product.sum(axis=0)
        bias[1:] += by_state_product.sum(axis=0)  # a GRU's second bias; others have one row
        padded = 1 - step.counts  # padded steps pass gradients through unchanged
        by_hidden = direct + by_state_product @ layer.recurrent.T + by_hidden * padded
        by_carry = earlier + by_carry * padded
    return by_inputs, _Layer(kernel, recurrent, bias)


def _step_back(
    cell: Cell, step: _Step, by_hidden: Array, by_carry: Array
) -> tuple[Array, Array, Array, Array]:
    """Return gradients by the input product, the state product, the state and the carry."""
    if cell == "lstm":
        i, f, g, o, carry = step.gates
        squashed = np.tanh(carry)
        by_carry = by_carry + by_hidden * o * (1 - squashed**2)
        sums = (
            by_carry * g * i * (1 - i),
            by_carry * step.carry * f * (1 - f),
            by_carry * i * (1 - g**2),
            by_hidden * squashed * o * (1 - o),
        )
        total = np.concatenate(sums, axis=-1)
        return total, total, np.zeros_like(by_hidden), by_carry * f
    if cell == "gru":
        z, r, n, hh = step.gates
        by_n = by_hidden * (1 - z) * (1 - n**2)
        by_z = by_hidden * (step.hidden - n) * z * (1 - z)
        by_r = by_n * hh * r * (1 - r)
        by_input_product = np.concatenate([by_z, by_r, by_n], axis=-1)
        by_state_product = np.concatenate([by_z, by_r, by_n * r], axis=-1)
        return by_input_product, by_state_product, by_hidden * z, by_carry
    (total,) = step.gates
    slope = 1 - np.tanh(total) ** 2 if cell == "rnn_tanh" else (total > 0).astype(np.float64)
    return by_hidden * slope, by_hidden * slope, np.zeros_like(by_hidden), by_carry


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-values))
