"""The distributions of Keras' initializers, drawn by NumPy. Imports Keras.

Keras draws by the generator of its backend, so an initializer of one seed has other values on each.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np
from keras.src.initializers.random_initializers import compute_fans
from numpy.typing import NDArray

DrawnNumbers: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = tuple[int, ...]
Rule: TypeAlias = Callable[[Any, Shape, np.random.Generator], DrawnNumbers]
"""A function of an initializer, a shape and a generator."""

_TRUNCATED_AT = 2.0
"""Keras' truncated normal distributions end at two standard deviations of the normal one."""

_TRUNCATED_STDDEV = 0.87962566103423978
"""The standard deviation of the standard normal distribution between −2 and 2."""


def is_constant(initializer: Any) -> bool:
    """Return True for an initializer of Keras' own that draws nothing."""
    if isinstance(initializer, keras.initializers.Initializer):
        return _call_of(initializer) in _CONSTANT
    return str(getattr(initializer, "__module__", "")).startswith("keras.")


def rule_of(initializer: Any) -> Rule | None:
    """Return the rule of a random initializer; None for one that is not of Keras.

    A class of the user's own has the rule of the class of Keras' whose `__call__` it inherits.
    """
    return _RULES.get(_call_of(initializer))


def _call_of(initializer: Any) -> Any:
    return type(initializer).__call__


def _draw_uniform(initializer: Any, shape: Shape, draw: np.random.Generator) -> DrawnNumbers:
    return draw.uniform(initializer.minval, initializer.maxval, shape)


def _draw_normal(initializer: Any, shape: Shape, draw: np.random.Generator) -> DrawnNumbers:
    return draw.normal(initializer.mean, initializer.stddev, shape)


def _draw_truncated_normal(
    initializer: Any, shape: Shape, draw: np.random.Generator
) -> DrawnNumbers:
    return initializer.mean + initializer.stddev * _standard_truncated(shape, draw)


def _draw_by_variance(initializer: Any, shape: Shape, draw: np.random.Generator) -> DrawnNumbers:
    """Draw with a variance of scale / (number of inputs, of outputs, or their mean)."""
    inputs, outputs = compute_fans(shape, initializer.input_axes, initializer.output_axes)
    count = {"fan_in": inputs, "fan_out": outputs}.get(initializer.mode, (inputs + outputs) / 2)
    variance = initializer.scale / max(1.0, count)
    if initializer.distribution == "uniform":
        limit = math.sqrt(3 * variance)
        return draw.uniform(-limit, limit, shape)
    if initializer.distribution == "untruncated_normal":
        return draw.normal(0.0, math.sqrt(variance), shape)
    return math.sqrt(variance) / _TRUNCATED_STDDEV * _standard_truncated(shape, draw)


def _draw_orthogonal(initializer: Any, shape: Shape, draw: np.random.Generator) -> DrawnNumbers:
    """Draw a matrix whose rows or columns, the fewer ones, are orthonormal (Saxe et al. 2013)."""
    rows, columns = math.prod(shape[:-1]), shape[-1]
    matrix = draw.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(matrix)
    q = q * np.sign(np.diag(r))  # makes the draw uniform over orthogonal matrices
    return initializer.gain * (q if rows >= columns else q.T).reshape(shape)


def _standard_truncated(shape: Shape, draw: np.random.Generator) -> DrawnNumbers:
    """Draw from the standard normal distribution; draw again what is beyond its limits."""
    numbers = draw.standard_normal(shape)
    while (beyond := np.abs(numbers) > _TRUNCATED_AT).any():
        numbers[beyond] = draw.standard_normal(np.count_nonzero(beyond))
    return numbers


_RULES: dict[Any, Rule] = {
    keras.initializers.RandomUniform.__call__: _draw_uniform,
    keras.initializers.RandomNormal.__call__: _draw_normal,
    keras.initializers.TruncatedNormal.__call__: _draw_truncated_normal,
    keras.initializers.VarianceScaling.__call__: _draw_by_variance,
    keras.initializers.Orthogonal.__call__: _draw_orthogonal,
}

_CONSTANT = tuple(
    kind.__call__
    for kind in (
        keras.initializers.Constant,
        keras.initializers.Zeros,
        keras.initializers.Ones,
        keras.initializers.Identity,
        keras.initializers.STFT,
    )
)
