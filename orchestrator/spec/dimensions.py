"""Parameters of a search space: choices and ranges, with conditions that activate them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from orchestrator.core.trial import Config, ConfigValue, is_number
from orchestrator.spec.errors import shown
from orchestrator.spec.fields import Strict, as_tuple, refusal


def _number(value: Any) -> Any:
    if not is_number(value):
        raise refusal("a number")
    return value


def _choice(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise refusal("a number, a text, true or false")
    return value


def _values(value: Any) -> Any:
    """Expand one value in a condition to a list of one."""
    return tuple(value) if isinstance(value, list) else (value,)


Number: TypeAlias = Annotated[int | float, BeforeValidator(_number)]
Choice: TypeAlias = Annotated[ConfigValue, BeforeValidator(_choice)]
Condition: TypeAlias = Mapping[
    str, Annotated[tuple[Choice, ...], BeforeValidator(_values), Field(min_length=1)]
]


def same(one: ConfigValue, other: ConfigValue) -> bool:
    """Return whether values are equal; true is not 1."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def is_met(when: Condition, config: Config) -> bool:
    """Return whether `config` has one of its values for every parameter that `when` names."""
    return all(
        other in config and any(same(config[other], value) for value in values)
        for other, values in when.items()
    )


class Choices(Strict):
    """One of a list of values; `when` has the values of earlier parameters that activate it."""

    choices: Annotated[tuple[Choice, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    when: Condition = Field(default_factory=dict)

    @model_validator(mode="after")
    def _each_once(self) -> Choices:
        for one, other in itertools.combinations(self.choices, 2):
            if same(one, other):
                raise refusal("each choice once", f"{shown(one)} twice", key="choices")
        return self

    @property
    def count(self) -> int | None:
        """The number of values."""
        return len(self.choices)

    @property
    def probes(self) -> Sequence[ConfigValue]:
        """Values that are checked on behalf of all."""
        return self.choices

    def origin(self, value: ConfigValue) -> tuple[str | int, ...]:
        """Return the path of a probe within the dimension."""
        return "choices", next(i for i, choice in enumerate(self.choices) if same(choice, value))

    def grid_values(self) -> Sequence[ConfigValue] | None:
        """Return all values, in the order of the spec."""
        return self.choices

    def contains(self, value: ConfigValue) -> bool:
        """Return whether the parameter can take `value`."""
        return any(same(value, choice) for choice in self.choices)


class Range(Strict):
    """From `low` to `high`, both included: ints if all of its numbers are ints, else floats."""

    low: Number
    high: Number
    log: bool = False
    step: Number | None = None
    when: Condition = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _one_kind(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        numbers = {key: data[key] for key in ("low", "high", "step") if is_number(data.get(key))}
        if all(isinstance(value, int) for value in numbers.values()):
            return data
        return {**data, **{key: float(value) for key, value in numbers.items()}}

    @model_validator(mode="after")
    def _consistent(self) -> Range:
        if self.low > self.high:
            raise refusal(f"low at most high ({self.high})", shown(self.low), key="low")
        if self.log and self.low <= 0:
            raise refusal("low above 0, for log: true", shown(self.low), key="low")
        if self.step is not None and self.log:
            raise refusal("no step with log: true (Optuna has no such ranges)", key="step")
        if self.step is not None and self.step <= 0:
            raise refusal("more than 0", shown(self.step), key="step")
        if self.step is not None and (_exact(self.high) - _exact(self.low)) % _exact(self.step):
            last = self._nth((_exact(self.high) - _exact(self.low)) // _exact(self.step))
            expected = f"low plus a whole number of steps, such as {last}"
            raise refusal(expected, shown(self.high), key="high")
        return self

    @property
    def is_integer(self) -> bool:
        """True if the values are ints."""
        return isinstance(self.low, int)

    @property
    def count(self) -> int | None:
        """The number of values; None if infinite."""
        if self.low == self.high:
            return 1
        step = self.step if self.step is not None else 1 if self.is_integer else None
        if step is None:
            return None
        return int((_exact(self.high) - _exact(self.low)) // _exact(step)) + 1

    @property
    def probes(self) -> Sequence[ConfigValue]:
        """Values that are checked on behalf of all.

        An inner value reveals a range of floats where only whole numbers are allowed.
        """
        if self.is_integer or self.low == self.high:
            return tuple(dict.fromkeys((self.low, self.high)))
        inner = self._nth(1) if self.step else self.low * (2 / 3) + self.high / 3
        return tuple(dict.fromkeys((self.low, self.high, inner)))

    def origin(self, value: ConfigValue) -> tuple[str | int, ...]:
        """Return the path of a probe within the dimension; empty for an inner value."""
        return ("low",) if value == self.low else ("high",) if value == self.high else ()

    def grid_values(self) -> Sequence[ConfigValue] | None:
        """Return all values, ascending; None if infinite. Ints come as a `range`, not a list."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return range(self.low, self.high + 1, int(self.step or 1))
        return None if self.count is None else [self._nth(n) for n in range(self.count)]

    def contains(self, value: ConfigValue) -> bool:
        """Return whether the parameter can take `value`."""
        if isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        step = self.step if self.step is not None else 1 if self.is_integer else None
        return step is None or (_exact(value) - _exact(self.low)) % _exact(step) == 0

    def nearest(self, value: float) -> float:
        """Return the value of the range nearest to `value`: 0.3 for 0.1 + 2 × 0.1."""
        if self.step is None:
            return value
        return float(self._nth(round((_exact(value) - _exact(self.low)) / _exact(self.step))))

    def _nth(self, steps: int) -> int | float:
        value = _exact(self.low) + steps * _exact(self.step or 1)
        return int(value) if self.is_integer else float(value)


def _exact(value: int | float) -> Fraction:
    """Return the number as it is written (0.1 is a tenth), so that steps add up."""
    return Fraction(repr(value))


def _long_form(value: Any) -> Any:
    return {"choices": value} if isinstance(value, list) else value


def _kind(value: Any) -> str | None:
    """Return which of the two a mapping is meant to be, even if keys are misspelt."""
    if isinstance(value, Choices | Range):
        return "choices" if isinstance(value, Choices) else "range"
    if not isinstance(value, dict):
        return None
    if "choices" in value:
        return "choices"
    ranged = not value.keys().isdisjoint(("low", "high", "log", "step"))
    return "choices" if not ranged and any(str(key)[:1] == "c" for key in value) else "range"


Dimension: TypeAlias = Annotated[
    Annotated[Choices, Tag("choices")] | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    BeforeValidator(_long_form),
]
