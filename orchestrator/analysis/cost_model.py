"""Prediction of the time, memory and energy of configs that were not measured.

The logarithm of a cost is fitted by ridge regression on the logarithms of the params; arms share
the slopes, and each has a level of its own. Whole configs are held out, on every arm: their
residuals give the interval (split conformal prediction). If the ridge does not predict held-out
configs better than each arm's median, the median is used.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestrator.core.arms import Arm
from orchestrator.core.caller import as_typed
from orchestrator.core.errors import Refusal
from orchestrator.core.names import names_arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config, ConfigValue, FinishedTrial, canonical, is_number
from workloads.metrics import FRESH_ONLY

TARGETS = ("trial_s", "step_ms", "predict_ms", *FRESH_ONLY, "energy_j")
"""The costs that can be predicted. `trial_s` is a trial's whole time, from its set-up to its last
prediction; energy is the energy of the timed epochs."""

MIN_CONFIGS = 5
"""The smallest number of configs of which some can be held out."""

COVERAGE = 0.9
"""The share of intervals that shall contain the measured value."""

_FOLDS = 5
_PENALTIES = tuple(10.0**exponent for exponent in range(-4, 3))
_OWN_LEVEL, _OWN_SLOPE = 3.0, 0.5  # arms may differ by any factor, but less in their growth

ConfigOnArm: TypeAlias = tuple[Config, Arm]
Method: TypeAlias = Literal["ridge", "medians"]
Logarithms: TypeAlias = NDArray[np.float64]
Predict: TypeAlias = Callable[[Sequence[ConfigOnArm]], Logarithms]


class NotPredicted(Refusal):
    """A refusal to predict: a config outside of the measured ranges, or too few measurements."""

    __module__ = "rnnsweep"


@dataclass(frozen=True, slots=True)
class MeasuredTrial:
    """One complete trial: its params (settings and config), its arm, and its costs."""

    params: Config
    arm: Arm
    took: Mapping[str, float]


@dataclass(frozen=True, slots=True, repr=False)
class Expectation:
    """The expected cost of a trial of the config on the arm, with its 90 % interval.

    Without a prediction there are no numbers, and `reason` explains it. `is_measured` is False for
    a cost that no trial of the sweep has, such as energy where nothing measures it.
    """

    config: Config
    arm: Arm
    target: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    is_measured: bool = True

    def __repr__(self) -> str:
        """Return the cost and its interval in a line, or why there are none."""
        what = f"{self.target} of {self.arm}"
        if self.value is None or self.low is None or self.high is None:
            return f"<{what}: {(self.reason or '').removeprefix(f'{what}: ')}>"
        return f"<{what}: {self.value:.4g}, {self.low:.4g} to {self.high:.4g}>"


def observe(
    finished: Iterable[FinishedTrial], settings: Mapping[str, Any] | None = None
) -> list[MeasuredTrial]:
    """Return the complete trials of one sweep, with its settings that are numbers or words.

    Pruned trials count with their times per step and their memory. A trainer's first trial includes
    its start-up: if an arm has others, its time is left out. Memory is from first trials alone.
    Interleaved trials share the time of their round.
    """
    trials = [trial for trial in finished if trial.has_times]
    fixed = {k: v for k, v in (settings or {}).items() if isinstance(v, bool | int | float | str)}
    warm = {trial.arm for trial in trials if trial.trainer_trials}
    observations = []
    for trial, seconds in zip(trials, trial_seconds(trials), strict=True):
        is_first, is_whole = trial.trainer_trials == 0, trial.status == "complete"
        costs = {
            target: trial.metrics[target]
            for target in (TARGETS if is_whole else ("step_ms", *FRESH_ONLY))
            if target in trial.metrics and (is_first or target not in FRESH_ONLY)
        }
        if is_whole and not (is_first and trial.arm in warm):
            costs["trial_s"] = seconds
        took = {name: value for name, value in costs.items() if 0 < value < math.inf}
        observations.append(
            MeasuredTrial(params_of(fixed, trial.config, trial.arm), trial.arm, took)
        )
    return observations


def params_of(settings: Mapping[str, Any], config: Config, arm: Arm) -> Config:
    """Return all that a trial's cost may depend on except its arm, with the arm's own settings."""
    return {**settings, **config, **arm.settings}


def config_groups(observations: Sequence[MeasuredTrial]) -> list[str]:
    """Return the params of each trial as text, without params that are settings of some arm.

    Trials of the same text, on any arm, are held out together.
    """
    names_of_arms = {name for measured in observations for name in measured.arm.settings}
    shared = [
        {n: v for n, v in measured.params.items() if n not in names_of_arms}
        for measured in observations
    ]
    return list(map(canonical, shared))


def trial_seconds(finished: Sequence[FinishedTrial]) -> list[float]:
    """Return the seconds that each trial kept its slot; interleaved ones share their round's."""
    slots = [
        (trial.block, trial.repeat, trial.node, trial.round_id)
        if trial.arm.measure == "timing"
        else trial.key
        for trial in finished
    ]
    by_slot: dict[object, list[FinishedTrial]] = defaultdict(list)
    for slot, trial in zip(slots, finished, strict=True):
        by_slot[slot].append(trial)
    shares_s = {
        slot: (max(o.ended_s for o in together) - min(o.started_s for o in together))
        / len(together)
        for slot, together in by_slot.items()
    }
    return [shares_s[slot] for slot in slots]


@dataclass(frozen=True, slots=True)
class Measured:
    """The values of one param in the trials: the range of its numbers, and all others as JSON."""

    numbers: tuple[float, float] | None
    words: frozenset[str]

    def scaled(self, number: float) -> float:
        """Return a number on a scale that is -1 to 1 in the range, logarithmic above 0."""
        if self.numbers is None or self.numbers[0] == self.numbers[1]:
            return 0.0
        scale = math.log if self.numbers[0] > 0 else float
        low, high = map(scale, self.numbers)
        return (2 * scale(number) - low - high) / (high - low)

    @property
    def is_constant(self) -> bool:
        """Whether all trials had the same value."""
        if self.numbers is None:
            return len(self.words) == 1
        return self.numbers[0] == self.numbers[1] and not self.words

    def includes(self, value: ConfigValue | None) -> bool:
        """Return whether a value is in the range of the numbers, or one of the words."""
        if is_number(value):
            return self.numbers is not None and self.numbers[0] <= value <= self.numbers[1]
        return canonical(value) in self.words

    def refusal_reason(self, name: str, value: ConfigValue | None) -> str | None:
        """Return why a config with this value is not predicted; None if it is."""
        if self.includes(value) or (value is None and self.is_constant):
            return None
        expected = sorted(self.words - {"null"})
        if self.numbers is not None:
            low, high = self.numbers
            expected.insert(0, f"{low:g}" if low == high else f"{low:g} to {high:g}")
        received = "nothing" if value is None else canonical(value)
        return f"{name}: expected {' or '.join(expected)}, as measured; received {received}"


def _measured(values: Sequence[ConfigValue | None]) -> Measured:
    numbers = [float(value) for value in values if is_number(value)]
    words = frozenset(canonical(value) for value in values if not is_number(value))
    return Measured((min(numbers), max(numbers)) if numbers else None, words)


@dataclass(frozen=True, slots=True)
class CostModel:
    """A fitted model of `target`.

    `errors` are errors of the logarithm on held-out configs, measured minus predicted. `configs` is
    the number of configs, and `median_error` the median error on held-out ones, as a share.
    """

    target: str
    method: Method
    errors: Logarithms
    configs: int
    params: Mapping[str, Measured]
    arms: frozenset[Arm]
    _predict: Predict

    @property
    def median_error(self) -> float:
        """The median of |predicted - measured| / measured on held-out configs."""
        return float(np.median(np.abs(np.expm1(-self.errors))))

    def predict(
        self, asked: Sequence[ConfigOnArm], settings: Mapping[str, Any] = MappingProxyType({})
    ) -> list[Expectation]:
        """Return the expected cost of each trial (config, arm), or the reason for none."""
        rows = [(params_of(settings, config, arm), arm) for config, arm in asked]
        reasons = [self.refusal_reason(params, arm) for params, arm in rows]
        inside = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
        values = iter(np.exp(self._predict(inside)).tolist() if inside else ())
        factor = math.exp(_half_width(self.errors))
        expectations = []
        for (config, arm), reason in zip(asked, reasons, strict=True):
            if reason is None:
                value = next(values)
                interval = value, value / factor, value * factor
                expectations.append(Expectation(config, arm, self.target, *interval))
            else:
                text = f"{self.target} of {arm}: {reason}"
                expectations.append(Expectation(config, arm, self.target, reason=text))
        return expectations

    def refusal_reason(self, params: Config, arm: Arm) -> str | None:
        """Return the part of a trial that is outside of what was measured; None if none is."""
        if arm not in self.arms:
            return f"no trial of {arm} was measured"
        for name, value in params.items():
            if name not in self.params and isinstance(value, bool | int | float | str):
                return f"{name}: no trial had such a parameter"
        reasons = (m.refusal_reason(name, params.get(name)) for name, m in self.params.items())
        return next(filter(None, reasons), None)


def _half_width(errors: Logarithms) -> float:
    """Return the ⌈(n + 1) × coverage⌉-th smallest absolute error."""
    ordered = np.sort(np.abs(errors))
    rank = math.ceil((len(ordered) + 1) * COVERAGE)
    beyond = max(1.0, rank / len(ordered))  # above all errors, if these are too few for the rank
    return float(ordered[min(rank, len(ordered)) - 1]) * beyond


def fit(observations: Sequence[MeasuredTrial], target: str) -> CostModel:
    """Fit a model of the target to all observations; NotPredicted if the configs are too few."""
    usable = [measured for measured in observations if target in measured.took]
    groups = config_groups(usable)
    count = len(set(groups))
    if count < MIN_CONFIGS:
        raise NotPredicted(
            f"{target}: expected complete trials of at least {MIN_CONFIGS} configs to learn from, "
            f"received {count}"
        )
    from sklearn.model_selection import GroupKFold  # noqa: PLC0415  (over a second)

    names = sorted({name for measured in usable for name in measured.params})
    params = {name: _measured([measured.params.get(name) for measured in usable]) for name in names}
    rows: list[ConfigOnArm] = [(measured.params, measured.arm) for measured in usable]
    logs = np.log([measured.took[target] for measured in usable])
    learners: dict[Method, Callable[[Sequence[ConfigOnArm], Logarithms], Predict]] = {
        "medians": _learn_medians,
        "ridge": lambda rows, logs: _learn_ridge(rows, logs, params),
    }
    errors: dict[Method, Logarithms] = {name: np.zeros(len(rows)) for name in learners}
    folds = GroupKFold(min(_FOLDS, count), shuffle=True, random_state=0)
    for shown, hidden in folds.split(rows, groups=groups):
        for name, learn in learners.items():
            predict = learn([rows[i] for i in shown], logs[shown])
            errors[name][hidden] = logs[hidden] - predict([rows[i] for i in hidden])
    best = min(errors, key=lambda name: float(np.mean(np.abs(errors[name]))))
    arms = frozenset(arm for _, arm in rows)
    return CostModel(target, best, errors[best], count, params, arms, learners[best](rows, logs))


def _learn_medians(rows: Sequence[ConfigOnArm], logs: Logarithms) -> Predict:
    arms = [arm for _, arm in rows]
    medians = {
        arm: np.median(logs[[arm_of_row == arm for arm_of_row in arms]]) for arm in set(arms)
    }
    overall = np.median(logs)
    return lambda others: np.array([medians.get(arm, overall) for _, arm in others])


def _learn_ridge(
    rows: Sequence[ConfigOnArm], logs: Logarithms, params: Mapping[str, Measured]
) -> Predict:
    """Fit a ridge regression of logarithms on sizes, with a level and slopes for each arm."""
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415
    from sklearn.linear_model import RidgeCV  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415

    def columns(row: ConfigOnArm) -> dict[str, float]:
        """Return the columns of a row that are not 0: its arm, scaled numbers, words."""
        config, arm = row
        columns = {f"arm {arm}": _OWN_LEVEL}
        for name, measured in params.items():
            value = config.get(name)
            if is_number(value):
                columns[name] = measured.scaled(float(value))
                columns[f"{name} on {arm}"] = _OWN_SLOPE * columns[name]
            else:
                columns[f"{name} {canonical(value)}"] = 1.0
        return columns

    model = make_pipeline(DictVectorizer(sparse=False), RidgeCV(alphas=_PENALTIES))
    model.fit(list(map(columns, rows)), logs)
    return lambda others: model.predict(list(map(columns, others)))


def expect(
    observations: Sequence[MeasuredTrial],
    asked: Sequence[ConfigOnArm],
    settings: Mapping[str, Any],
    targets: Sequence[str] = TARGETS,
) -> list[Expectation]:
    """Return the expected costs of trials of these configs on these arms, trial by trial."""
    by_target = []
    for target in targets:
        try:
            by_target.append(fit(observations, target).predict(asked, settings))
        except NotPredicted as error:
            has_any = any(target in measured.took for measured in observations)
            none = [Expectation(*row, target, reason=str(error)) for row in asked]
            by_target.append([replace(expected, is_measured=has_any) for expected in none])
    return [expectation for of_trial in zip(*by_target, strict=True) for expectation in of_trial]


def predict_from(
    record: SweepRecord, config: Config, arm: str = "*", targets: Sequence[str] = TARGETS
) -> list[Expectation]:
    """Predict a trial's costs, or raise NotPredicted; see `orchestrator.api.predict`."""
    if unknown := [target for target in targets if target not in TARGETS]:
        raise NotPredicted(f"targets: expected of {', '.join(TARGETS)}; received {unknown[0]!r}")
    arms = [candidate for candidate in record.arms if names_arm(arm, candidate)]
    if not arms:
        choices = "; ".join(map(str, record.arms)) or "none, as none can run"
        raise NotPredicted(f"sweep {record.name!r}: expected an arm of it ({choices}); got {arm!r}")
    for candidate in arms:
        for name, value in candidate.settings.items():
            if config.get(name, value) != value:
                other = as_typed("--arm", "arm")
                raise NotPredicted(
                    f"sweep {record.name!r}: {candidate} has {name} {value} of its own; received "
                    f"{config[name]}. Leave {name!r} out, or choose another arm ({other})"
                )
    configs = [trial.config for trial in record.trials]
    names = dict.fromkeys(name for tried in configs for name in tried)
    varied = [name for name in names if len({canonical(tried.get(name)) for tried in configs}) > 1]
    expected = f"sweep {record.name!r}: expected its parameters ({', '.join(names)})"
    unknown = [name for name in config if name not in names and name not in record.settings]
    if unknown:
        raise NotPredicted(f"{expected}; received {', '.join(map(repr, unknown))}")
    missing = [
        name for name in varied if name not in config and all(name in tried for tried in configs)
    ]
    if missing:
        add = as_typed(
            " ".join(f"--set {name}=VALUE" for name in missing),
            ", ".join(f"{name!r}: VALUE" for name in missing),
        )
        raise NotPredicted(f"{expected}; missing: {', '.join(missing)}. Add {add}")
    observations = observe(record.trials, record.settings)
    asked = [(config, candidate) for candidate in arms]
    return expect(observations, asked, record.settings, targets)
