"""A model of one cost (seconds, MiB, J), chosen and judged by configs that it was not shown.

All methods predict the logarithm: costs are positive, and differ by factors. Whole configs are held
out, with their trials on every arm, as a config to be predicted has none.

- *medians*: each arm's own median, whatever the config; what there is to beat.
- *log-linear*: ridge regression on the logarithms of the params, with slopes that all arms share
  and each arm's deviation from them, under one penalty: arms with few trials lean on the others
  (partial pooling). A power law, which the work of a recurrent step is of its sizes.
- *quadratic*: the same with squares and products: the law's exponent may change, as it does where
  overhead gives way to arithmetic.
- *gaussian process*: scikit-learn's, with one length scale a param.

The interval is the spread of the errors on held-out configs: their (1 - α) quantile with the
finite-sample rank of split conformal prediction, over cross-validation (Vovk, "Cross-conformal
predictors", Annals of Mathematics and Artificial Intelligence 74, 2015): it needs no normal errors.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from orchestrator.analysis.cost_model.extrapolation import Matrix
from orchestrator.analysis.cost_model.features import Features, make_features
from orchestrator.analysis.cost_model.observations import Observation
from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import Config

Method: TypeAlias = Literal["medians", "log-linear", "quadratic", "gaussian process"]
METHODS: tuple[Method, ...] = ("medians", "log-linear", "quadratic", "gaussian process")

COVERAGE = 0.9
"""The share of intervals that are to hold what is then measured."""

MIN_GROUPS = 5
"""Configs below which nothing can be held out and judged."""

_FOLDS = 5
_MOST = 2_000
_MOST_FOR_A_PROCESS = 400  # its work grows with the cube
_OWN_LEVEL, _OWN_SLOPE = 3.0, 0.5  # arms differ by any factor, and less in how they grow
_PENALTIES = tuple(float(each) for each in np.logspace(-4, 2, 13))


class NotPredicted(Refusal):
    """A config too far from what was measured, or too little that was; the message says which."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a trial is expected to take, and where 90 % of such trials lie."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How far off predictions of configs were that the model was not shown, as shares.

    `coverage` is the share of intervals (made without the trial) that held what was measured.
    """

    trials: int
    configs: int
    median: float
    ninetieth: float
    coverage: float


_Predict: TypeAlias = Callable[[Matrix, Matrix], Matrix]
_Learn: TypeAlias = Callable[[Matrix, Matrix, Matrix], _Predict]


@dataclass(frozen=True, slots=True)
class CostModel:
    """A fitted model of `target`.

    `errors` are those of the logarithms on held-out configs, measured minus predicted; `tried` the
    median error of each method, as a share.
    """

    target: str
    method: Method
    features: Features
    held_out: HeldOut
    errors: tuple[float, ...]
    tried: dict[Method, float]
    _predict: _Predict

    def predict(self, params: Config, arm: Arm) -> Prediction:
        """What a trial of the config takes on the arm.

        The interval grows with the distance outside of what was measured.

        Raises:
            NotPredicted: the config is too far from what was measured.
        """
        (found,) = self.predict_each([(params, arm)])
        if isinstance(found, NotPredicted):
            raise found
        return found

    def predict_each(self, rows: Sequence[tuple[Config, Arm]]) -> list[Prediction | NotPredicted]:
        """As `predict`, of many trials: each as predicted, or why it is not."""
        reasons = [self.features.why_not(params, arm) for params, arm in rows]
        near = [row for row, why in zip(rows, reasons, strict=True) if not why]
        logs = iter(self.logs(near) if near else ())
        half = _quantile(self.errors)
        return [
            NotPredicted(f"{self.target} of {arm}: {why}")
            if why
            else _around(float(next(logs)), half * (1 + self.features.beyond(params)))
            for (params, arm), why in zip(rows, reasons, strict=True)
        ]

    def logs(self, rows: Sequence[tuple[Config, Arm]]) -> Matrix:
        """The logarithms of what is expected, however far away the configs are."""
        return self._predict(*self.features.matrix(rows))


def _around(log: float, half: float) -> Prediction:
    return Prediction(math.exp(log), math.exp(log - half), math.exp(log + half))


def fit(
    observations: Sequence[Observation], target: str, methods: Sequence[Method] = METHODS
) -> CostModel:
    """The method that predicts held-out configs best, fitted to all observations of the target.

    Raises:
        NotPredicted: too few configs were measured to hold any out.
    """
    known = _at_most([each for each in observations if target in each.took])
    groups = sorted({each.group for each in known})
    if len(groups) < MIN_GROUPS:
        raise NotPredicted(
            f"{target}: expected complete trials of at least {MIN_GROUPS} configs to learn from, "
            f"received {len(groups)}"
        )
    features = make_features(known)
    values, arms = features.matrix([(each.params, each.arm) for each in known])
    logs = np.log([each.took[target] for each in known])
    folds = _folds([groups.index(each.group) for each in known], len(groups))
    possible = [m for m in methods if m != "gaussian process" or len(known) <= _MOST_FOR_A_PROCESS]
    errors = {
        method: _errors_held_out(_LEARNERS[method], values, arms, logs, folds)
        for method in possible
    }
    best = min(possible, key=lambda method: float(np.mean(np.abs(errors[method]))))
    return CostModel(
        target,
        best,
        features,
        _judge(errors[best], folds, len(groups)),
        tuple(float(each) for each in errors[best]),
        {method: float(np.median(_shares(errors[method]))) for method in possible},
        _LEARNERS[best](values, arms, logs),
    )


def _at_most(known: list[Observation]) -> list[Observation]:
    """All of them, or whole configs taken by chance: more teach little and take long."""
    if len(known) <= _MOST:
        return known
    groups = sorted({each.group for each in known})
    share = max(MIN_GROUPS, len(groups) * _MOST // len(known))
    kept = set(random.Random(0).sample(groups, min(share, len(groups))))
    return [each for each in known if each.group in kept]


def _folds(groups: Sequence[int], count: int) -> Matrix:
    """Each observation's fold; configs are dealt out in a fixed random order."""
    order = np.random.default_rng(0).permutation(count) % min(_FOLDS, count)
    return np.array([order[group] for group in groups])


def _errors_held_out(
    learn: _Learn, values: Matrix, arms: Matrix, logs: Matrix, folds: Matrix
) -> Matrix:
    errors = np.zeros_like(logs)
    for fold in np.unique(folds):
        out = folds == fold
        predict = learn(values[~out], arms[~out], logs[~out])
        errors[out] = logs[out] - predict(values[out], arms[out])
    return errors


def _judge(errors: Matrix, folds: Matrix, groups: int) -> HeldOut:
    """Each fold's intervals are made from the errors of the others."""
    held = np.zeros(len(errors), dtype=bool)
    for fold in np.unique(folds):
        held[folds == fold] = np.abs(errors[folds == fold]) <= _quantile(errors[folds != fold])
    median, ninetieth = np.quantile(_shares(errors), (0.5, 0.9))
    return HeldOut(len(errors), groups, float(median), float(ninetieth), float(np.mean(held)))


def _shares(errors: Matrix) -> Matrix:
    """Of the measured value: |predicted - measured| / measured."""
    return np.abs(np.expm1(-errors))


def _quantile(errors: Sequence[float] | Matrix, coverage: float = COVERAGE) -> float:
    """The half-width that holds `coverage` of errors: the ⌈(n + 1) × coverage⌉-th smallest."""
    ordered = np.sort(np.abs(np.asarray(errors)))
    rank = math.ceil((len(ordered) + 1) * coverage)
    if rank <= len(ordered):
        return float(ordered[rank - 1])
    return float(ordered[-1]) * rank / len(ordered)  # too few for the rank: somewhat beyond all


def _learn_medians(values: Matrix, arms: Matrix, logs: Matrix) -> _Predict:
    overall = float(np.median(logs))
    own = [
        float(np.median(logs[arms[:, i] > 0])) if (arms[:, i] > 0).any() else overall
        for i in range(arms.shape[1])
    ]
    return lambda _, others: others @ np.array(own)


def _learn_ridge(values: Matrix, arms: Matrix, logs: Matrix, *, squares: bool) -> _Predict:
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415  (over a second)

    def design(values: Matrix, arms: Matrix) -> Matrix:
        shared = values
        if squares and values.shape[1]:
            first, second = np.triu_indices(values.shape[1])
            shared = np.hstack([values, values[:, first] * values[:, second]])
        own = (arms[:, :, None] * shared[:, None, :]).reshape(len(values), -1)
        return np.hstack([shared, _OWN_LEVEL * arms, _OWN_SLOPE * own])

    model = RidgeCV(alphas=_PENALTIES).fit(design(values, arms), logs)
    return lambda others, their_arms: model.predict(design(others, their_arms))


def _learn_process(values: Matrix, arms: Matrix, logs: Matrix) -> _Predict:
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import (  # noqa: PLC0415
        RBF,
        ConstantKernel,
        DotProduct,
        WhiteKernel,
    )

    def design(values: Matrix, arms: Matrix) -> Matrix:
        return np.hstack([values, arms])

    inputs = design(values, arms)
    kernel: Any = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(
        np.ones(inputs.shape[1]), (0.1, 1e3)
    ) + ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, (1e-2, 1e2))
    process = GaussianProcessRegressor(
        kernel + WhiteKernel(0.1, (1e-5, 10.0)), normalize_y=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a scale at its bound says: no effect
        process.fit(inputs, logs)
    return lambda others, their_arms: process.predict(design(others, their_arms))


_LEARNERS: dict[Method, _Learn] = {
    "medians": _learn_medians,
    "log-linear": lambda *data: _learn_ridge(*data, squares=False),
    "quadratic": lambda *data: _learn_ridge(*data, squares=True),
    "gaussian process": _learn_process,
}
