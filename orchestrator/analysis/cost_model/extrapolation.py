"""Detection of hidden extrapolation: combinations of params that are far from all measured ones.

A config can be new although each of its params is in range: for example sizes that were never large
together. The leverage of a row x with respect to the rows X, h(x) = x'(X'X + I)⁻¹x, is its squared
distance from them in a regression: the squared standard error of the fitted value, in units of the
errors' variance. Above the largest leverage of the rows themselves it is an extrapolation
(Montgomery, Peck and Vining, "Introduction to Linear Regression Analysis", hidden extrapolation in
multiple regression). The unit matrix I, one row in each direction, keeps distances finite if params
changed only together, or if there are fewer rows than columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Leverage:
    """The leverage with respect to some rows; `largest` is the largest of the rows themselves."""

    weights: Numbers = field(repr=False, compare=False)
    largest: float

    def of(self, row: Numbers) -> float:
        """Return the row's squared distance."""
        design = _design(np.atleast_2d(row))
        return float((design @ self.weights @ design.T)[0, 0])

    def excess(self, row: Numbers) -> float:
        """Return the share by which the row's leverage exceeds the largest; 0 within.

        Leverages are squares of distances. So is the error of a fitted shape whose products and
        squares were not measured.
        """
        return max(0.0, self.of(row) / self.largest - 1)


def make_leverage(rows: Numbers) -> Leverage:
    """Return the leverage of these rows, without duplicates."""
    design = _design(np.unique(rows, axis=0))
    inverse = np.linalg.inv(design.T @ design + np.eye(design.shape[1]))
    weights: Numbers = inverse.astype(np.float64)  # numpy names it any float
    return Leverage(weights, float(np.einsum("ij,jk,ik->i", design, weights, design).max()))


def _design(rows: Numbers) -> Numbers:
    return np.hstack([np.ones((len(rows), 1)), rows])
