"""A fingerprint out of a model's outputs and gradients: small enough to be stored with a trial.

Imports no framework.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.context import expect_finite
from workloads.protocol import Fingerprint

_OUTPUTS, _GRADIENTS = 32, 32
"""The most outputs and weight arrays of a fingerprint."""

_DIGITS = 9  # of float32


def make_fingerprint(
    outputs: Sequence[NDArray[Any]], gradients: Sequence[NDArray[Any]]
) -> Fingerprint:
    """Return the fingerprint of a model's outputs and of the gradients by its weight arrays.

    Both are float64, in an order that all implementations share. Raise `NonFinite` for an output
    that is NaN or infinite.
    """
    values = np.concatenate([output.ravel() for output in outputs])
    chosen = np.linspace(0, values.size - 1, min(_OUTPUTS, values.size)).round().astype(int)
    rms = float(np.sqrt(np.mean(np.square(values))))
    expect_finite({"root mean square of the outputs": rms}, "check, at the initial weights")
    norms, projections = [], []
    for index, gradient in enumerate(gradients[:_GRADIENTS]):
        signs = np.random.default_rng(index).integers(0, 2, gradient.size, np.int8) * 2 - 1
        norms.append(_rounded(np.linalg.norm(gradient)))
        projections.append(_rounded(gradient.ravel() @ signs))
    is_finite = bool(np.isfinite([*norms, *projections]).all())
    return Fingerprint(
        outputs=tuple(_rounded(value) for value in values[chosen]),
        output_rms=_rounded(rms),
        gradient_norms=tuple(norms) if is_finite else (),
        gradient_projections=tuple(projections) if is_finite else (),
    )


def _rounded(value: Any) -> float:
    return float(f"{float(value):.{_DIGITS}g}")
