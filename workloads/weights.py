"""The same initial weights on every arm: made by numpy from the trial's seed, set into the model.

A framework's own initialisers draw differently on each backend and kernel. Here each variable is
drawn by its role from a generator seeded with the trial's seed and the variable's path, so that
neither the order of building nor another layer changes what it gets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]


def set_initial_weights(variables: Iterable[Any], seed: int) -> None:
    """Assign every trainable variable of a model its initial value.

    Args:
        variables: Keras variables, whose paths end in `layer/role` or `layer/cell/role`.
        seed: the trial's seed.

    Raises:
        ValueError: a variable has a role that has no rule here.
    """
    for variable in variables:
        variable.assign(initial_value(variable.path, tuple(variable.shape), seed))


def initial_value(path: str, shape: tuple[int, ...], seed: int) -> Weights:
    """The initial value of the variable at `path`: Keras' default distributions.

    Kernels are Glorot uniform, recurrent kernels orthogonal (one draw across all gates), biases
    zero except for the forget gate of an LSTM, which starts at one.
    """
    *_, owner, role = path.split("/")
    draw = np.random.default_rng([seed, *hashlib.sha256(path.encode()).digest()[:8]])
    if role == "kernel":
        return _glorot_uniform(shape, draw)
    if role == "recurrent_kernel":
        return _orthogonal(shape, draw)
    if role == "bias":
        return _forget_gate_open(shape) if owner == "lstm_cell" else np.zeros(shape, np.float32)
    raise ValueError(
        f"variable {path!r}: expected the role kernel, recurrent_kernel or bias; received {role!r}:"
        " add a rule to workloads/weights.py"
    )


def _glorot_uniform(shape: tuple[int, ...], draw: np.random.Generator) -> Weights:
    """Uniform within ±sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010)."""
    limit = np.sqrt(6.0 / (shape[0] + shape[1]))
    return draw.uniform(-limit, limit, shape).astype(np.float32)


def _orthogonal(shape: tuple[int, ...], draw: np.random.Generator) -> Weights:
    """Rows or columns orthonormal, whichever are fewer (Saxe et al. 2013, as Keras does it)."""
    rows, columns = shape
    q, r = np.linalg.qr(draw.standard_normal((max(shape), min(shape))))
    q = q * np.sign(np.diag(r))  # makes the draw uniform over orthogonal matrices
    return np.ascontiguousarray(q if rows >= columns else q.T, dtype=np.float32)


def _forget_gate_open(shape: tuple[int, ...]) -> Weights:
    """Zeros, and ones for the second of the four gates (Jozefowicz et al. 2015)."""
    bias = np.zeros(shape, np.float32)
    units = shape[0] // 4
    bias[units : 2 * units] = 1.0
    return bias
