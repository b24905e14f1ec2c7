"""Params and arms as numbers; and which configs are too far from what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.cost_model.observations import Observation
from orchestrator.trial import Arm, Config, ConfigValue, canonical

Matrix = NDArray[np.float64]

FURTHEST = 1.0
"""How far outside of its measured range a param may lie: a factor of two, on a logarithmic scale;
else the range's own width."""


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


@dataclass(frozen=True, slots=True)
class Features:
    """What varied in the observations: numbers, words (and what was switched off), arms."""

    numeric: tuple[Numeric, ...]
    words: tuple[tuple[str, tuple[str, ...]], ...]
    fixed: tuple[tuple[str, str], ...]
    arms: tuple[Arm, ...]

    def why_not(self, params: Config, arm: Arm) -> str:
        """Why the config is too far from what was measured; empty where it is not."""
        if arm not in self.arms:
            return f"no trial of {arm} was measured"
        mixed = {name for name, _ in self.words}
        for each in self.numeric:
            value = params.get(each.name)
            if not _is_number(value) and each.name in mixed:
                continue
            if not _is_number(value) or each.beyond(float(value)) > FURTHEST:  # type: ignore[arg-type]
                measured = f"{each.low:g} to {each.high:g}"
                return f"{each.name} {value} is too far from {measured}, which were measured"
        for name, known in self.words:
            if _word(params.get(name)) not in known:
                return f"no trial had {name} {canonical(params.get(name))}"
        for name, value in self.fixed:
            if name in params and canonical(params[name]) != value:
                return f"every trial had {name} {value}, none {canonical(params[name])}"
        return ""

    def beyond(self, params: Config) -> float:
        """How far outside of what was measured, over all params; 0 within."""
        return math.fsum(
            each.beyond(float(value))
            for each in self.numeric
            if isinstance(value := params.get(each.name), int | float)
        )

    def matrix(self, rows: Sequence[tuple[Config, Arm]]) -> tuple[Matrix, Matrix]:
        """Numbers and words of each row; and its arm, one column each."""
        values = [[*self._numbers(params), *self._words(params)] for params, _ in rows]
        arms = [[float(arm == each) for each in self.arms] for _, arm in rows]
        shape = len(rows), -1
        return np.array(values, dtype=float).reshape(shape), np.array(arms, dtype=float)

    def _numbers(self, params: Config) -> list[float]:
        found = []
        for each in self.numeric:
            value = params.get(each.name)
            found.append(each.scaled(float(value)) if _is_number(value) else 0.0)  # type: ignore[arg-type]
        return found

    def _words(self, params: Config) -> list[float]:
        return [
            float(_word(params.get(name)) == value) for name, known in self.words for value in known
        ]


def make_features(observations: Sequence[Observation]) -> Features:
    """What varied in these observations."""
    numeric, words, fixed = [], [], []
    for name in sorted({name for each in observations for name in each.params}):
        values = [each.params.get(name) for each in observations]
        numbers = [float(value) for value in values if _is_number(value)]  # type: ignore[arg-type]
        known = tuple(sorted({_word(value) for value in values}))
        if len(set(numbers)) > 1:
            numeric.append(_numeric(name, numbers))
        if len(known) > 1:
            words.append((name, known))
        elif len(set(numbers)) <= 1:
            fixed.append((name, canonical(values[0])))
    arms = tuple(dict.fromkeys(each.arm for each in observations))
    return Features(tuple(numeric), tuple(words), tuple(fixed), arms)


def _numeric(name: str, values: Iterable[float]) -> Numeric:
    numbers = sorted(set(values))
    is_log = numbers[0] > 0
    low, high = (
        (math.log(numbers[0]), math.log(numbers[-1])) if is_log else (numbers[0], numbers[-1])
    )
    return Numeric(name, numbers[0], numbers[-1], is_log, (low + high) / 2, (high - low) / 2)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_NUMBER = "a number"


def _word(value: ConfigValue | None) -> str:
    """What a value is beside a number: all numbers are one word."""
    return _NUMBER if _is_number(value) else canonical(value)
