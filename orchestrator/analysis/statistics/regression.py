"""Ordinary least squares with intervals and p-values.

This uses NumPy and SciPy's quantiles, because importing statsmodels takes longer than a whole
report.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, stdtr, stdtrit

from orchestrator.analysis.statistics.estimates import CONFIDENCE, Estimate

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients, the covariance of their errors, and the residuals' degrees of freedom.

    `confidence` is the level of the intervals.
    """

    coefficients: Numbers
    covariance: Numbers
    freedom: int
    confidence: float = CONFIDENCE

    def at(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Return the fitted values of these rows and the half-widths of their intervals."""
        errors = np.sqrt(np.maximum(0, np.einsum("ij,jk,ik->i", rows, self.covariance, rows)))
        return rows @ self.coefficients, self._quantile * errors

    def simultaneous_factor(self, terms: int) -> float:
        """Return the factor that widens the half-widths of `at` to a band for all rows together.

        Source: Scheffé, "A method for judging all contrasts in the analysis of variance",
        Biometrika 40(1/2), 1953; `terms` is the number of coefficients that the rows vary.
        """
        band = np.sqrt(terms * fdtri(terms, self.freedom, self.confidence))
        return float(band) / self._quantile

    def coefficient(self, place: int) -> Estimate:
        """Return one coefficient with its interval; `n` is the number of rows that were fitted."""
        value = float(self.coefficients[place])
        half = self._quantile * float(np.sqrt(self.covariance[place, place]))
        return Estimate(self.freedom + len(self.coefficients), value, value - half, value + half)

    def p_value(self, place: int) -> float:
        """Return the two-sided p-value of a t test of one coefficient against 0."""
        error = float(np.sqrt(self.covariance[place, place]))
        if error == 0:
            return 0.0 if self.coefficients[place] else 1.0
        return 2 * float(stdtr(self.freedom, -abs(float(self.coefficients[place])) / error))

    @property
    def _quantile(self) -> float:
        return float(stdtrit(self.freedom, (1 + self.confidence) / 2))


def fit(rows: Numbers, values: Numbers, confidence: float = CONFIDENCE) -> Fit | None:
    """Fit by least squares; the errors of the coefficients are s² (X'X)⁻¹.

    Return None if the rows do not determine the coefficients, or leave no degree of freedom.
    Source: Draper and Smith, "Applied regression analysis", 3rd edition, 1998, chapter 5.
    """
    n, k = rows.shape
    if n <= k or np.linalg.matrix_rank(rows) < k:
        return None
    coefficients: Numbers = np.linalg.lstsq(rows, values, rcond=None)[0].astype(np.float64)
    residuals = values - rows @ coefficients
    inverse = np.linalg.inv(rows.T @ rows)
    covariance = np.asarray(inverse * float(residuals @ residuals) / (n - k), dtype=np.float64)
    return Fit(coefficients, covariance, n - k, confidence)
