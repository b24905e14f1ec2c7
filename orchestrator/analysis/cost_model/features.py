"""Params and arms as numbers, and the configs that are too far from the measured ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.cost_model.extrapolation import Leverage, Numbers, make_leverage
from orchestrator.analysis.cost_model.observations import Observation
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, ConfigValue, canonical, is_number

FURTHEST = 1.0
"""The permitted distance of a param from its measured range: a factor of two on a logarithmic
scale, else the width of the range."""

FURTHEST_TOGETHER = 3.0
"""The permitted excess of the leverage of all params together: up to four times the largest
measured one, which is twice as far as the furthest config."""


@dataclass(frozen=True, slots=True)
class Numeric:
    """A param that was measured at several numbers; on a logarithmic scale if all exceed 0."""

    name: str
    low: float
    high: float
    is_log: bool
    centre: float
    width: float

    def scaled(self, value: float) -> float:
        """Return the value on a scale that is -1 to 1 within the measured range."""
        raw = math.log(max(value, 1e-12)) if self.is_log else value
        return (raw - self.centre) / self.width

    def beyond(self, value: float) -> float:
        """Return the distance from the range, in ranges or, on a log scale, factors of two."""
        if self.low <= value <= self.high:
            return 0.0
        if not self.is_log:
            edge = self.low if value < self.low else self.high
            return abs(value - edge) / (self.high - self.low)
        if value <= 0:
            return math.inf
        return abs(math.log2(value / (self.low if value < self.low else self.high)))

    def column(self, value: ConfigValue | None) -> float:
        """Return the value in a model's column: the middle of the range if it is no number."""
        return self.scaled(float(value)) if is_number(value) else 0.0

    def range_reason(self, value: ConfigValue | None) -> str:
        """Return the sentence that such a value is too far."""
        measured = f"{self.low:g} to {self.high:g}"
        if value is None:
            return f"{self.name} is missing; {measured} were measured"
        given = f"{value:.4g}" if isinstance(value, float) else value
        return f"{self.name} {given} is too far from {measured}, which were measured"


@dataclass(frozen=True, slots=True)
class Features:
    """The variation in the observations: numbers, words (and disabled params), arms.

    `leverage` is that of their configs on any arm, because the arms share slopes.
    """

    numeric: tuple[Numeric, ...]
    words: tuple[tuple[str, tuple[str, ...]], ...]
    fixed: tuple[tuple[str, str], ...]
    arms: tuple[Arm, ...]
    leverage: Leverage

    def refusal_reason(self, params: Config, arm: Arm) -> str | None:
        """Return the reason why the config is too far from the measured ones, if it is."""
        return self.novelty_reason(params, arm) or self.distance_reason(params)

    def novelty_reason(self, params: Config, arm: Arm) -> str | None:
        """Return the part of the config that no trial had, if there is one."""
        if arm not in self.arms:
            return f"no trial of {arm} was measured"
        mixed = {name for name, _ in self.words}
        for param in self.numeric:
            value = params.get(param.name)
            if is_number(value):
                if not math.isfinite(param.beyond(float(value))):
                    return param.range_reason(value)
            elif param.name not in mixed:
                return param.range_reason(value)
        names = {*mixed, *(param.name for param in self.numeric), *(name for name, _ in self.fixed)}
        for name, value in params.items():
            if name not in names and isinstance(value, bool | int | float | str):
                return f"no trial had {name} {canonical(value)}"
        for name, values in self.words:
            if _word(params.get(name)) not in values:
                return f"no trial had {name} {canonical(params.get(name))}"
        for name, value in self.fixed:
            if name in params and canonical(params[name]) != value:
                return f"every trial had {name} {value}, none {canonical(params[name])}"
        return None

    def distance_reason(self, params: Config) -> str | None:
        """Return the number that is too far, or the combination that is, if any."""
        for param in self.numeric:
            value = params.get(param.name)
            if is_number(value) and param.beyond(float(value)) > FURTHEST:
                return param.range_reason(value)
        if self._together(params) > FURTHEST_TOGETHER:
            names = [*(param.name for param in self.numeric), *(name for name, _ in self.words)]
            combination = ", ".join(f"{name} {params.get(name)}" for name in dict.fromkeys(names))
            return f"each of {combination} was measured, but no config like this combination"
        return None

    def beyond(self, params: Config) -> float:
        """Return the distance from the measured configs, of all params and together; 0 within."""
        apart = math.fsum(
            param.beyond(float(value))
            for param in self.numeric
            if is_number(value := params.get(param.name))
        )
        return apart + self._together(params)

    def matrix(self, rows: Sequence[tuple[Config, Arm]]) -> tuple[Numbers, Numbers]:
        """Return the numbers and words of each row, and its arm as indicator columns."""
        arms = [[float(arm == column) for column in self.arms] for _, arm in rows]
        values = _rows(self.numeric, self.words, [params for params, _ in rows])
        return values, np.array(arms, dtype=float)

    def _together(self, params: Config) -> float:
        """Return the excess of the combination alone: numbers out of range count as the edge."""
        (row,) = _rows(self.numeric, self.words, [params])
        count = len(self.numeric)
        return self.leverage.excess(np.concatenate([np.clip(row[:count], -1, 1), row[count:]]))


def make_features(observations: Sequence[Observation]) -> Features:
    """Return the variation in these observations."""
    numeric, words, fixed = [], [], []
    for name in sorted({name for observation in observations for name in observation.params}):
        values = [observation.params.get(name) for observation in observations]
        numbers = [float(value) for value in values if is_number(value)]
        distinct = tuple(sorted({_word(value) for value in values}))
        if len(set(numbers)) > 1:
            numeric.append(_numeric(name, numbers))
        if len(distinct) > 1:
            words.append((name, distinct))
        elif len(set(numbers)) <= 1:
            fixed.append((name, canonical(values[0])))
    arms = tuple(dict.fromkeys(observation.arm for observation in observations))
    rows = _rows(numeric, words, [observation.params for observation in observations])
    return Features(tuple(numeric), tuple(words), tuple(fixed), arms, make_leverage(rows))


def _rows(
    numeric: Sequence[Numeric],
    words: Sequence[tuple[str, tuple[str, ...]]],
    configs: Sequence[Config],
) -> Numbers:
    """Return the scaled numbers and the words of each config."""
    values = [
        [
            *(param.column(params.get(param.name)) for param in numeric),
            *(float(_word(params.get(name)) == word) for name, own in words for word in own),
        ]
        for params in configs
    ]
    return np.array(values, dtype=float).reshape(len(configs), -1)


def _numeric(name: str, values: Iterable[float]) -> Numeric:
    numbers = sorted(set(values))
    is_log = numbers[0] > 0
    low, high = (
        (math.log(numbers[0]), math.log(numbers[-1])) if is_log else (numbers[0], numbers[-1])
    )
    return Numeric(name, numbers[0], numbers[-1], is_log, (low + high) / 2, (high - low) / 2)


_NUMBER = "a number"


def _word(value: ConfigValue | None) -> str:
    """Return the value as a word; all numbers are one word."""
    return _NUMBER if is_number(value) else canonical(value)
