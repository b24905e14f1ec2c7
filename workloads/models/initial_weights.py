"""Initial weights that are equal on every arm: drawn by NumPy from the trial's seed.

Every array has a generator of its own, seeded with the trial's seed and the path of the array:
`recurrent_N/role` in the canonical layout, with N counting layers and directions, in other layers
`layer/role`. So the numbers depend neither on the implementation, nor on the order of building, nor
on other layers. The distributions are Keras' defaults.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.backends.stack_call import GATES
from workloads.models.canonical_weights import CanonicalLayer

InitialWeights = NDArray[np.float32]


def set_initial_weights(model: Any, seed: int) -> None:
    """Assign every trainable variable of a built model its initial value."""
    from workloads.models import layers  # noqa: PLC0415 - imports the framework

    drawn = [
        draw_layer(f"recurrent_{number}", built, seed)
        for number, built in enumerate(layers.read_canonical(model))
    ]
    layers.write_canonical(model, drawn)
    for layer in layers.layers_of(model):
        if not layers.is_recurrent(layer):
            for variable in layer.trainable_variables:
                path = f"{layer.name}/{variable.name}"
                variable.assign(draw_variable(path, tuple(variable.shape), seed))


def draw_layer(path: str, like: CanonicalLayer, seed: int) -> CanonicalLayer:
    """Return the initial weights of the recurrent layer at `path`, in the shapes of `like`.

    Kernels are Glorot uniform, recurrent kernels orthogonal (one draw for all gates). Biases are
    zero, except for the forget gate of an LSTM, which starts at one.
    """
    bias = None if like.bias is None else np.zeros(like.bias.shape, np.float32)
    if bias is not None and like.gates == GATES["lstm"]:
        bias.reshape(GATES["lstm"], -1)[1] = 1.0  # Jozefowicz et al. 2015
    return CanonicalLayer(
        _glorot_uniform(like.kernel.shape, _generator(f"{path}/kernel", seed)),
        _orthogonal(like.recurrent_kernel.shape, _generator(f"{path}/recurrent_kernel", seed)),
        bias,
    )


def draw_variable(path: str, shape: tuple[int, ...], seed: int) -> InitialWeights:
    """Return the initial value of the variable at `path` of a layer that is not recurrent.

    Kernels are Glorot uniform, biases zero, embeddings uniform within ±0.05. Raise `ValueError` for
    the path of another role.
    """
    role = path.rpartition("/")[2]
    draw = _generator(path, seed)
    if role == "kernel":
        return _glorot_uniform(shape, draw)
    if role == "bias":
        return np.zeros(shape, np.float32)
    if role == "embeddings":
        return draw.uniform(-0.05, 0.05, shape).astype(np.float32)
    raise ValueError(
        f"variable {path!r}: expected the role kernel, bias or embeddings; received {role!r}:"
        " add a rule to workloads/models/initial_weights.py"
    )


def _generator(path: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *hashlib.sha256(path.encode()).digest()[:8]])


def _glorot_uniform(shape: tuple[int, ...], draw: np.random.Generator) -> InitialWeights:
    """Draw uniformly within ±sqrt(6 / (fan in + fan out)) (Glorot and Bengio 2010)."""
    limit = np.sqrt(6.0 / (shape[0] + shape[1]))
    return draw.uniform(-limit, limit, shape).astype(np.float32)


def _orthogonal(shape: tuple[int, ...], draw: np.random.Generator) -> InitialWeights:
    """Draw a matrix whose rows or columns, the fewer ones, are orthonormal (Saxe et al. 2013)."""
    rows, columns = shape
    q, r = np.linalg.qr(draw.standard_normal((max(shape), min(shape))))
    q = q * np.sign(np.diag(r))  # makes the draw uniform over orthogonal matrices
    return np.ascontiguousarray(q if rows >= columns else q.T, dtype=np.float32)
