"""Params and arms as numbers; and which configs are too far from what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.cost_model.extrapolation import Leverage, Matrix, make_leverage
from orchestrator.analysis.cost_model.observations import Observation
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, ConfigValue, canonical, is_number

FURTHEST = 1.0
"""How far outside of its measured range a param may lie: a factor of two, on a logarithmic scale;
else the range's own width."""

FURTHEST_TOGETHER = 3.0
"""The same of all params together, each within its range: four times the largest leverage that was
measured, which is twice as far as the furthest config."""


@dataclass(frozen=True, slots=True)
class Numeric:
    """A param that was measured at several numbers; on a logarithmic scale where all exceed 0."""

    name: str
    low: float
    high: float
    is_log: bool
    centre: float
    width: float

    def scaled(self, value: float) -> float:
        """About -1 to 1 within what was measured; what is no positive number stays at its edge."""
        raw = math.log(max(value, 1e-12)) if self.is_log else value
        return (raw - self.centre) / self.width

    def beyond(self, value: float) -> float:
        """How far outside the range, in ranges or, on a logarithmic scale, in factors of two."""
        if self.low <= value <= self.high:
            return 0.0
        if not self.is_log:
            edge = self.low if value < self.low else self.high
            return abs(value - edge) / (self.high - self.low)
        if value <= 0:
            return math.inf
        return abs(math.log2(value / (self.low if value < self.low else self.high)))

    def column(self, value: ConfigValue | None) -> float:
        """As a model sees it: a word beside numbers, or nothing, is at their middle."""
        return self.scaled(float(value)) if is_number(value) else 0.0

    def too_far(self, value: ConfigValue | None) -> str:
        """That such a value is too far."""
        measured = f"{self.low:g} to {self.high:g}"
        if value is None:
            return f"no {self.name} is given, of which {measured} were measured"
        return f"{self.name} {value} is too far from {measured}, which were measured"


@dataclass(frozen=True, slots=True)
class Features:
    """What varied in the observations: numbers, words (and what was switched off), arms.

    `leverage` is that of their configs, whatever the arm: arms lean on each other.
    """

    numeric: tuple[Numeric, ...]
    words: tuple[tuple[str, tuple[str, ...]], ...]
    fixed: tuple[tuple[str, str], ...]
    arms: tuple[Arm, ...]
    leverage: Leverage

    def why_not(self, params: Config, arm: Arm) -> str:
        """Why the config is too far from what was measured; empty where it is not."""
        return self.why_unlike(params, arm) or self.why_far(params)

    def why_unlike(self, params: Config, arm: Arm) -> str:
        """What of the config no trial had at all, at no distance; empty where there is no such."""
        if arm not in self.arms:
            return f"no trial of {arm} was measured"
        mixed = {name for name, _ in self.words}
        for each in self.numeric:
            value = params.get(each.name)
            if is_number(value):
                if not math.isfinite(each.beyond(float(value))):
                    return each.too_far(value)
            elif each.name not in mixed:
                return each.too_far(value)
        there = {*mixed, *(each.name for each in self.numeric), *(name for name, _ in self.fixed)}
        for name, value in params.items():
            if name not in there and isinstance(value, bool | int | float | str):
                return f"no trial had {name} {canonical(value)}"
        for name, known in self.words:
            if _word(params.get(name)) not in known:
                return f"no trial had {name} {canonical(params.get(name))}"
        for name, value in self.fixed:
            if name in params and canonical(params[name]) != value:
                return f"every trial had {name} {value}, none {canonical(params[name])}"
        return ""

    def why_far(self, params: Config) -> str:
        """Which of its numbers is too far, or all of them together; empty where none is."""
        for each in self.numeric:
            value = params.get(each.name)
            if is_number(value) and each.beyond(float(value)) > FURTHEST:
                return each.too_far(value)
        if self._together(params) > FURTHEST_TOGETHER:
            named = [*(each.name for each in self.numeric), *(name for name, _ in self.words)]
            told = ", ".join(f"{name} {params.get(name)}" for name in dict.fromkeys(named))
            return f"nothing like {told} together was measured, though each of them was"
        return ""

    def beyond(self, params: Config) -> float:
        """How far outside of what was measured: over all params, and together; 0 within."""
        apart = math.fsum(
            each.beyond(float(value))
            for each in self.numeric
            if is_number(value := params.get(each.name))
        )
        return apart + self._together(params)

    def matrix(self, rows: Sequence[tuple[Config, Arm]]) -> tuple[Matrix, Matrix]:
        """Numbers and words of each row; and its arm, one column each."""
        arms = [[float(arm == each) for each in self.arms] for _, arm in rows]
        values = _rows(self.numeric, self.words, [params for params, _ in rows])
        return values, np.array(arms, dtype=float)

    def _together(self, params: Config) -> float:
        """What is beyond in the combination alone: each number is taken to its range's edge."""
        (row,) = _rows(self.numeric, self.words, [params])
        count = len(self.numeric)
        return self.leverage.excess(np.concatenate([np.clip(row[:count], -1, 1), row[count:]]))


def make_features(observations: Sequence[Observation]) -> Features:
    """What varied in these observations."""
    numeric, words, fixed = [], [], []
    for name in sorted({name for each in observations for name in each.params}):
        values = [each.params.get(name) for each in observations]
        numbers = [float(value) for value in values if is_number(value)]
        known = tuple(sorted({_word(value) for value in values}))
        if len(set(numbers)) > 1:
            numeric.append(_numeric(name, numbers))
        if len(known) > 1:
            words.append((name, known))
        elif len(set(numbers)) <= 1:
            fixed.append((name, canonical(values[0])))
    arms = tuple(dict.fromkeys(each.arm for each in observations))
    rows = _rows(numeric, words, [each.params for each in observations])
    return Features(tuple(numeric), tuple(words), tuple(fixed), arms, make_leverage(rows))


def _rows(
    numeric: Sequence[Numeric],
    words: Sequence[tuple[str, tuple[str, ...]]],
    configs: Sequence[Config],
) -> Matrix:
    """Numbers, scaled, and words of each config."""
    values = [
        [
            *(each.column(params.get(each.name)) for each in numeric),
            *(float(_word(params.get(name)) == value) for name, known in words for value in known),
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
    """What a value is beside a number: all numbers are one word."""
    return _NUMBER if is_number(value) else canonical(value)
