"""A model of one cost (seconds, MiB, J), chosen and assessed by held-out configs.

All methods predict the logarithm: costs are positive and differ by factors. Whole configs are held
out, with their trials on every arm, because a config to predict has no trials.

- *medians*: the median of each arm for any config, as the reference.
- *log-linear*: ridge regression on the logarithms of the params, with shared slopes and each arm's
  deviation from them, under one penalty: arms with few trials borrow from the others (partial
  pooling). The work of a recurrent step is such a power law of its sizes.
- *quadratic*: the same with squares and products: the law's exponent may change, as where
  overhead gives way to arithmetic.
- *gaussian process*: scikit-learn's, with one length scale for each param.

The interval is the spread of the errors on held-out configs: their (1 - α) quantile with the
finite-sample rank of split conformal prediction, over cross-validation (Vovk, "Cross-conformal
predictors", Annals of Mathematics and Artificial Intelligence 74, 2015). It does not require normal
errors.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from orchestrator.analysis.cost_model.extrapolation import Numbers
from orchestrator.analysis.cost_model.features import Features, make_features
from orchestrator.analysis.cost_model.observations import Observation
from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import Config

Method: TypeAlias = Literal["medians", "log-linear", "quadratic", "gaussian process"]
METHODS: tuple[Method, ...] = ("medians", "log-linear", "quadratic", "gaussian process")

COVERAGE = 0.9
"""The share of intervals that shall contain the measured value."""

MIN_GROUPS = 5
"""The smallest number of configs of which some can be held out."""

_FOLDS = 5
_MOST = 2_000
_MOST_FOR_A_PROCESS = 400  # its work grows with the cube of the observations
_OWN_LEVEL, _OWN_SLOPE = 3.0, 0.5  # arms may differ by any factor, but less in their growth
_PENALTIES = tuple(float(penalty) for penalty in np.logspace(-4, 2, 13))


class NotPredicted(Refusal):
    """A refusal to predict: the config is too far from the measured ones, or these are too few."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The expected cost of a trial, with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The errors of the predictions of held-out configs, as shares of the measured values.

    `coverage` is the share of intervals (made without the trial) that contain the measured value.
    """

    trials: int
    configs: int
    median: float
    ninetieth: float
    coverage: float


_Predict: TypeAlias = Callable[[Numbers, Numbers], Numbers]
_Learn: TypeAlias = Callable[[Numbers, Numbers, Numbers], _Predict]


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
        """Return the expected cost of a trial of the config on the arm.

        The interval grows with the distance from the measured configs.

        Raises:
            NotPredicted: the config is too far from the measured ones.
        """
        (prediction,) = self.predict_each([(params, arm)])
        if isinstance(prediction, NotPredicted):
            raise prediction
        return prediction

    def predict_each(self, rows: Sequence[tuple[Config, Arm]]) -> list[Prediction | NotPredicted]:
        """Return the prediction of each trial, as of `predict`, or the error in its place."""
        reasons = [self.features.refusal_reason(params, arm) for params, arm in rows]
        near = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
        logs = iter(self.logs(near) if near else ())
        half = _quantile(self.errors)
        return [
            NotPredicted(f"{self.target} of {arm}: {reason}")
            if reason is not None
            else _around(float(next(logs)), half * (1 + self.features.beyond(params)))
            for (params, arm), reason in zip(rows, reasons, strict=True)
        ]

    def logs(self, rows: Sequence[tuple[Config, Arm]]) -> Numbers:
        """Return the logarithms of the expected costs, without a check of the distance."""
        return self._predict(*self.features.matrix(rows))


def _around(log: float, half: float) -> Prediction:
    return Prediction(math.exp(log), math.exp(log - half), math.exp(log + half))


def fit(
    observations: Sequence[Observation], target: str, methods: Sequence[Method] = METHODS
) -> CostModel:
    """Fit the method that predicts held-out configs best to all observations of the target.

    Raises:
        NotPredicted: there are too few configs to hold any out.
    """
    usable = _at_most([one for one in observations if target in one.took])
    groups = sorted({one.group for one in usable})
    if len(groups) < MIN_GROUPS:
        raise NotPredicted(
            f"{target}: expected complete trials of at least {MIN_GROUPS} configs to learn from, "
            f"received {len(groups)}"
        )
    features = make_features(usable)
    values, arms = features.matrix([(one.params, one.arm) for one in usable])
    logs = np.log([one.took[target] for one in usable])
    folds = _folds([groups.index(one.group) for one in usable], len(groups))
    possible = [m for m in methods if m != "gaussian process" or len(usable) <= _MOST_FOR_A_PROCESS]
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
        tuple(float(error) for error in errors[best]),
        {method: float(np.median(_shares(errors[method]))) for method in possible},
        _LEARNERS[best](values, arms, logs),
    )


def _at_most(observations: list[Observation]) -> list[Observation]:
    """Return all observations, or a random sample of configs: more add little and take long."""
    if len(observations) <= _MOST:
        return observations
    groups = sorted({one.group for one in observations})
    share = max(MIN_GROUPS, len(groups) * _MOST // len(observations))
    kept = set(random.Random(0).sample(groups, min(share, len(groups))))
    return [one for one in observations if one.group in kept]


def _folds(groups: Sequence[int], count: int) -> Numbers:
    """Return each observation's fold; configs are dealt out in a fixed random order."""
    order = np.random.default_rng(0).permutation(count) % min(_FOLDS, count)
    return np.array([order[group] for group in groups])


def _errors_held_out(
    learn: _Learn, values: Numbers, arms: Numbers, logs: Numbers, folds: Numbers
) -> Numbers:
    errors = np.zeros_like(logs)
    for fold in np.unique(folds):
        out = folds == fold
        predict = learn(values[~out], arms[~out], logs[~out])
        errors[out] = logs[out] - predict(values[out], arms[out])
    return errors


def _judge(errors: Numbers, folds: Numbers, groups: int) -> HeldOut:
    """Assess a method: each fold's intervals are made from the errors of the others."""
    held = np.zeros(len(errors), dtype=bool)
    for fold in np.unique(folds):
        held[folds == fold] = np.abs(errors[folds == fold]) <= _quantile(errors[folds != fold])
    median, ninetieth = np.quantile(_shares(errors), (0.5, 0.9))
    return HeldOut(len(errors), groups, float(median), float(ninetieth), float(np.mean(held)))


def _shares(errors: Numbers) -> Numbers:
    """Return |predicted - measured| / measured, from the errors of the logarithms."""
    return np.abs(np.expm1(-errors))


def _quantile(errors: Sequence[float] | Numbers, coverage: float = COVERAGE) -> float:
    """Return the half-width for `coverage` of errors: the ⌈(n + 1) × coverage⌉-th smallest."""
    ordered = np.sort(np.abs(np.asarray(errors)))
    rank = math.ceil((len(ordered) + 1) * coverage)
    if rank <= len(ordered):
        return float(ordered[rank - 1])
    return float(ordered[-1]) * rank / len(ordered)  # too few for the rank: above all of them


def _learn_medians(values: Numbers, arms: Numbers, logs: Numbers) -> _Predict:
    overall = float(np.median(logs))
    own = [
        float(np.median(logs[arms[:, i] > 0])) if (arms[:, i] > 0).any() else overall
        for i in range(arms.shape[1])
    ]
    return lambda _, others: others @ np.array(own)


def _learn_ridge(values: Numbers, arms: Numbers, logs: Numbers, *, squares: bool) -> _Predict:
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415  (over a second)

    def design(values: Numbers, arms: Numbers) -> Numbers:
        shared = values
        if squares and values.shape[1]:
            first, second = np.triu_indices(values.shape[1])
            shared = np.hstack([values, values[:, first] * values[:, second]])
        own = (arms[:, :, None] * shared[:, None, :]).reshape(len(values), -1)
        return np.hstack([shared, _OWN_LEVEL * arms, _OWN_SLOPE * own])

    model = RidgeCV(alphas=_PENALTIES).fit(design(values, arms), logs)
    return lambda others, their_arms: model.predict(design(others, their_arms))


def _learn_process(values: Numbers, arms: Numbers, logs: Numbers) -> _Predict:
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
    from sklearn.gaussian_process.kernels import (  # noqa: PLC0415
        RBF,
        ConstantKernel,
        DotProduct,
        WhiteKernel,
    )

    def design(values: Numbers, arms: Numbers) -> Numbers:
        return np.hstack([values, arms])

    inputs = design(values, arms)
    kernel: Any = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(
        np.ones(inputs.shape[1]), (0.1, 1e3)
    ) + ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, (1e-2, 1e2))
    process = GaussianProcessRegressor(
        kernel + WhiteKernel(0.1, (1e-5, 10.0)), normalize_y=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a scale at its bound: no effect
        process.fit(inputs, logs)
    return lambda others, their_arms: process.predict(design(others, their_arms))


_LEARNERS: dict[Method, _Learn] = {
    "medians": _learn_medians,
    "log-linear": lambda *data: _learn_ridge(*data, squares=False),
    "quadratic": lambda *data: _learn_ridge(*data, squares=True),
    "gaussian process": _learn_process,
}
