"""How far configs stand from all that were measured together: params that are apart within range.

Each of its params may have been measured, and nothing like the config: sizes that were never large
at once. The leverage of a row x beside the rows X, h(x) = x'(X'X + I)⁻¹x, is its squared distance
from them as a regression sees it: the squared standard error of what is fitted there, in units of
the errors' variance. Above the largest leverage of the rows themselves it is an extrapolation
(Montgomery, Peck and Vining, "Introduction to Linear Regression Analysis", hidden extrapolation in
multiple regression). The unit matrix I, one row in each direction, keeps distances finite where
params changed only together, or where there are fewer rows than columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Leverage:
    """Of rows like those it was made of; `largest` is the largest of these."""

    weights: Matrix = field(repr=False, compare=False)
    largest: float

    def of(self, row: Matrix) -> float:
        """The row's squared distance."""
        design = _design(np.atleast_2d(row))
        return float((design @ self.weights @ design.T)[0, 0])

    def excess(self, row: Matrix) -> float:
        """By how much of the largest its own exceeds it; 0 within.

        In squares of distances, as what is wrong with a shape (its products and squares, which
        were not seen) grows with these.
        """
        return max(0.0, self.of(row) / self.largest - 1)


def make_leverage(rows: Matrix) -> Leverage:
    """Of these rows, each counted once."""
    design = _design(np.unique(rows, axis=0))
    inverse = np.linalg.inv(design.T @ design + np.eye(design.shape[1]))
    weights: Matrix = inverse.astype(np.float64)  # numpy names it any float
    return Leverage(weights, float(np.einsum("ij,jk,ik->i", design, weights, design).max()))


def _design(rows: Matrix) -> Matrix:
    return np.hstack([np.ones((len(rows), 1)), rows])
