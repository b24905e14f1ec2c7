"""The search of a spec: which parameters, over which values, under which conditions.

Plain frozen models and what can be counted from them; Optuna's objects are built elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from orchestrator.places import shown
from orchestrator.trial import Config, ConfigValue
from workloads import implementations

Sampler: TypeAlias = Literal["tpe", "nsga2", "random", "grid", "qmc", "gp"]
WITHOUT_OBJECTIVE = ("grid", "random", "qmc")
"""Samplers that never look at an objective."""


class Strict(BaseModel):
    """Frozen; refuses keys that it does not know, and `"3"` where 3 is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refusal(expected: str, received: str = "", *, key: str = "") -> PydanticCustomError:
    """A validator's error in a spec's terms; `key` says which key of a mapping is meant."""
    context = {"expected": expected, "received": received, "key": key}
    return PydanticCustomError("refusal", "{expected}", context)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal("a number")
    return value


def _choice(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise refusal("a number, a text, true or false")
    return value


def as_tuple(value: Any) -> Any:
    """YAML has lists; frozen models hold tuples."""
    return tuple(value) if isinstance(value, list) else value


def _values(value: Any) -> Any:
    """One value in a condition is short for a list of one."""
    return tuple(value) if isinstance(value, list) else (value,)


def _implementation(text: str) -> str:
    """The one spelling of an implementation (options sorted); unknown names are another check."""
    try:
        return str(implementations.parse(text, known_only=False))
    except implementations.ImplementationError as error:
        shape = "backend/kernel[+option…], such as tensorflow/portable+xla, each option once"
        raise refusal(shape) from error


def _arm(text: str) -> str:
    name, on, hardware = text.partition(" on ")
    if on and not hardware.strip():
        raise refusal("implementation, or implementation on hardware")
    return f"{_implementation(name.strip())}{on}{hardware.strip()}"


Number: TypeAlias = Annotated[int | float, BeforeValidator(_number)]
Choice: TypeAlias = Annotated[ConfigValue, BeforeValidator(_choice)]
ImplementationText: TypeAlias = Annotated[str, AfterValidator(_implementation)]
ArmText: TypeAlias = Annotated[str, AfterValidator(_arm)]
ParameterName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
MetricName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Condition: TypeAlias = Mapping[
    str, Annotated[tuple[Choice, ...], BeforeValidator(_values), Field(min_length=1)]
]


def same(one: ConfigValue, other: ConfigValue) -> bool:
    """Equality that does not take true for 1."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


class Choices(Strict):
    """One of a list of values. `when` names values of earlier parameters that switch it on."""

    choices: Annotated[tuple[Choice, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    when: Condition = {}

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
        """Values whose validity stands for that of all."""
        return self.choices

    def grid_values(self) -> Sequence[ConfigValue] | None:
        """All values, in the order of the spec."""
        return self.choices

    def contains(self, value: ConfigValue) -> bool:
        """Whether the parameter can take `value`."""
        return any(same(value, choice) for choice in self.choices)


class Range(Strict):
    """From `low` to `high`, both included: ints if all of its numbers are ints, else floats."""

    low: Number
    high: Number
    log: bool = False
    step: Number | None = None
    when: Condition = {}

    @model_validator(mode="before")
    @classmethod
    def _one_kind(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        numbers = {
            key: data[key]
            for key in ("low", "high", "step")
            if isinstance(data.get(key), int | float) and not isinstance(data[key], bool)
        }
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
            raise refusal("no step beside log: true (Optuna has no such ranges)", key="step")
        if self.step is not None and self.step <= 0:
            raise refusal("more than 0", shown(self.step), key="step")
        if self.step is not None and (_exact(self.high) - _exact(self.low)) % _exact(self.step):
            last = self._nth((_exact(self.high) - _exact(self.low)) // _exact(self.step))
            expected = f"low plus a whole number of steps, such as {last}"
            raise refusal(expected, shown(self.high), key="high")
        return self

    @property
    def is_integer(self) -> bool:
        """Whether its values are ints."""
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
        """Values whose validity stands for that of all.

        An inner one shows a range of floats where only whole numbers are allowed.
        """
        if self.is_integer or self.low == self.high:
            return tuple(dict.fromkeys((self.low, self.high)))
        inner = self._nth(1) if self.step else self.low + (self.high - self.low) / 3
        return tuple(dict.fromkeys((self.low, self.high, inner)))

    def grid_values(self) -> Sequence[ConfigValue] | None:
        """All values, rising; None if infinite. A huge range of ints is not spelled out."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return range(self.low, self.high + 1, int(self.step or 1))
        return None if self.count is None else [self._nth(n) for n in range(self.count)]

    def contains(self, value: ConfigValue) -> bool:
        """Whether the parameter can take `value`."""
        if isinstance(value, bool | str) or not self.low <= value <= self.high:
            return False
        step = self.step if self.step is not None else 1 if self.is_integer else None
        return step is None or (_exact(value) - _exact(self.low)) % _exact(step) == 0

    def _nth(self, steps: int) -> int | float:
        value = _exact(self.low) + steps * _exact(self.step or 1)
        return int(value) if self.is_integer else float(value)


def _exact(value: int | float) -> Fraction:
    """The number as it is written (0.1 is a tenth), so that steps add up."""
    return Fraction(repr(value))


RANGE_KEYS = tuple(Range.model_fields)
CHOICES_KEYS = tuple(Choices.model_fields)


def _long_form(value: Any) -> Any:
    return {"choices": value} if isinstance(value, list) else value


def _kind(value: Any) -> str | None:
    """Which of the two a mapping is meant to be, misspelt keys included."""
    if isinstance(value, Choices | Range):
        return "choices" if isinstance(value, Choices) else "range"
    if not isinstance(value, dict):
        return None
    if "choices" in value:
        return "choices"
    ranged = any(key in RANGE_KEYS and key != "when" for key in value)
    return "choices" if not ranged and any(str(key)[:1] == "c" for key in value) else "range"


Dimension: TypeAlias = Annotated[
    Annotated[Choices, Tag("choices")] | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    BeforeValidator(_long_form),
]


def _over(text: str) -> str:
    if text in ("mean", "min", "max"):
        return text
    if "/" not in text:
        raise refusal("mean, min, max, or an arm of the sweep")
    return _arm(text)


class Objective(Strict):
    """What the sampler improves, and which of a block's trials speak for the block.

    `over` is `mean`, `min` or `max` over the block's trials, or an arm (`implementation`, or
    `implementation on hardware`) whose trials alone count, by their mean.
    """

    direction: Literal["maximize", "minimize"]
    over: Annotated[str, AfterValidator(_over)] = "mean"

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"direction": data} if isinstance(data, str) else data


class Search(Strict):
    """How configs are suggested: the sampler, how many, from which space, for which objectives."""

    sampler: Sampler = "tpe"
    configs: Annotated[int, Field(ge=1)] | None = None
    space: Mapping[ParameterName, Dimension] = {}
    objectives: Mapping[MetricName, Objective] = {}
    open_blocks: Annotated[int, Field(ge=1)] | None = None

    def count(self) -> int:
        """How many configs the sweep tries: `configs`, or a grid's size."""
        if self.configs is not None:
            return self.configs
        size = self.size()
        if size is None:
            raise ValueError("an infinite space has no count: give configs")
        return size

    def is_active(self, name: str, config: Config) -> bool:
        """Whether `name` takes part in a config that holds all parameters defined before it."""
        return is_met(self.space[name].when, config)

    def grid(self) -> list[dict[str, ConfigValue]]:
        """Every distinct config, the first parameter varying slowest; inactive ones are absent.

        Raises:
            ValueError: the space is infinite.
        """
        return [dict(config) for config in self._extend({}, list(self.space))]

    def _extend(self, config: dict[str, ConfigValue], names: list[str]) -> Iterator[Config]:
        if not names:
            yield config
            return
        name, rest = names[0], names[1:]
        if not self.is_active(name, config):
            yield from self._extend(config, rest)
            return
        values = self.space[name].grid_values()
        if values is None:
            raise ValueError(f"{name} is infinite: give choices or a step")
        for value in values:
            yield from self._extend({**config, name: value}, rest)

    def size(self) -> int | None:
        """The number of distinct configs; None if infinite. Counts, without listing them."""
        asked: dict[str, list[ConfigValue]] = {name: [] for name in self.space}
        for dimension in self.space.values():
            for other, values in dimension.when.items():
                known = asked.setdefault(other, [])
                known.extend(v for v in values if not any(same(v, k) for k in known))
        # What conditions ask for is told apart; all other values of a parameter count as one.
        states: list[tuple[dict[str, ConfigValue], int]] = [({}, 1)]
        for name, dimension in self.space.items():
            count, after = dimension.count, list[tuple[dict[str, ConfigValue], int]]()
            for config, ways in states:
                if not is_met(dimension.when, config):
                    after.append((config, ways))
                    continue
                if count is None:
                    return None
                told = [value for value in asked[name] if dimension.contains(value)]
                after.extend(({**config, name: value}, ways) for value in told)
                if count > len(told):
                    after.append((config, ways * (count - len(told))))
            states = after
        return sum(ways for _, ways in states)


def is_met(when: Condition, config: Config) -> bool:
    """Whether every parameter that `when` names is in `config` with one of its values."""
    return all(
        other in config and any(same(config[other], value) for value in values)
        for other, values in when.items()
    )
