"""The search of a spec as plain frozen models: sampler, pruner, objectives, space, configs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)

from orchestrator import sampling
from orchestrator.core.selectors import ANY_IMPLEMENTATION
from orchestrator.core.trial import Config, ConfigValue, is_number
from orchestrator.spec import chosen_kinds, fields
from orchestrator.spec.sections import AutoConfigs
from orchestrator.spec.spec_errors import nearest, shown_value

MOST_CONFIGS, MOST_REPEATS = 1_000_000, 1_000
_WIDEST = 1e15
"""The widest range: floats still separate the whole numbers in it; no sampler overflows."""

AGGREGATES = ("mean", "min", "max")

_PLAIN_TYPES = ["boolean", "integer", "number", "string", "null"]
_VALUE: fields.Json = {"type": [*_PLAIN_TYPES, "array"], "items": {"type": _PLAIN_TYPES}}
"""The JSON Schema of a value of a parameter."""

WhenCondition: TypeAlias = Annotated[
    Mapping[
        str,
        Annotated[
            tuple[fields.ParameterValue, ...],
            BeforeValidator(
                lambda value: tuple(value) if isinstance(value, list | tuple) else (value,)
            ),
            Field(min_length=1),
        ],
    ],
    Field(
        description=(
            "The values that earlier parameters must have for this one to be used, such as"
            " {bidirectional: false}."
        )
    ),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {**_VALUE, "items": _VALUE, "minItems": 1},
        }
    ),
]
"""For each parameter the values with which another one takes part; one value needs no list."""


def same(value: ConfigValue, other_value: ConfigValue) -> bool:
    """Return whether values are equal; true is not 1."""
    if isinstance(value, tuple) and isinstance(other_value, tuple):
        return len(value) == len(other_value) and all(map(same, value, other_value))
    return isinstance(value, bool) is isinstance(other_value, bool) and value == other_value


def is_met(when: WhenCondition, config: Config) -> bool:
    """Return whether `config` has one of its values for every parameter that `when` names."""
    return all(
        name in config and any(same(config[name], value) for value in values)
        for name, values in when.items()
    )


class Choices(fields.Strict):
    """One of a list of values; `when` has the values of earlier parameters that activate it."""

    choices: Annotated[
        tuple[fields.ParameterValue, ...], BeforeValidator(fields.as_tuple), Field(min_length=1)
    ] = Field(description="The values of the parameter; null and a list are values, too.")
    when: WhenCondition = Field(default_factory=dict)

    @classmethod
    def short_form(cls) -> fields.Json:
        """The values alone."""
        return {"type": "array", "items": _VALUE, "minItems": 1}

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for first, second in itertools.combinations(self.choices, 2):
            if same(first, second):
                raise fields.statement(f"{shown_value(first)} is listed twice", key="choices")
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


class Range(fields.Strict):
    """From `low` to `high`, both included: ints if all of its numbers are ints, else floats."""

    low: fields.IntOrFloat = Field(
        description="The smallest value. All values are whole numbers if low, high and step are."
    )
    high: fields.IntOrFloat = Field(description="The largest value.")
    log: bool = Field(False, description="Spread the values evenly on a logarithmic scale.")
    step: fields.IntOrFloat | None = Field(
        None, description="The distance between values, from low on."
    )
    when: WhenCondition = Field(default_factory=dict)

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
    def _expect_consistent_bounds(self) -> Self:
        if self.low > self.high:
            text = f"low ({self.low}) must not exceed high ({self.high})"
            raise fields.statement(text, key="low")
        if self.high - self.low > _WIDEST:
            raise fields.refusal(
                f"at most {_WIDEST:.0e} above low", shown_value(self.high), key="high"
            )
        if self.log and self.low <= 0:
            raise fields.refusal("more than 0, for log: true", shown_value(self.low), key="low")
        if self.step is not None and self.log:
            text = "Optuna's ranges have either a step or log: true, not both"
            raise fields.statement(text, key="step", hint="remove one of them")
        if self.step is not None and self.step <= 0:
            raise fields.refusal("more than 0", shown_value(self.step), key="step")
        if self.step is not None and self._steps > MOST_CONFIGS:
            raise fields.refusal(
                f"at most {MOST_CONFIGS:,} steps", shown_value(self.step), key="step"
            )
        if self.step is not None and not self.contains(self.high):
            expected = f"low plus a whole number of steps, such as {self._nth(self._steps)}"
            raise fields.refusal(expected, shown_value(self.high), key="high")
        return self

    @property
    def is_integer(self) -> bool:
        """True if the values are ints."""
        return isinstance(self.low, int)

    @property
    def _exact_step(self) -> Fraction | None:
        step = 1 if self.step is None and self.is_integer else self.step
        return None if step is None else _exact(step)

    @property
    def _steps(self) -> int:
        return int((_exact(self.high) - _exact(self.low)) // (self._exact_step or 1))

    @property
    def count(self) -> int | None:
        """The number of values; None if infinite."""
        if self._exact_step is None and self.low < self.high:
            return None
        return self._steps + 1

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
        """Return all values, ascending; None if infinite."""
        return None if self.count is None else [self._nth(n) for n in range(self.count)]

    def contains(self, value: ConfigValue) -> bool:
        """Return whether the parameter can take `value`."""
        if not is_number(value) or not self.low <= value <= self.high:
            return False
        step = self._exact_step
        return step is None or (_exact(value) - _exact(self.low)) % step == 0

    def nearest(self, value: float) -> float:
        """Return the value of the range nearest to `value`: 0.3 for 0.1 + 2 × 0.1."""
        if self.step is None:
            return value
        return float(self._nth(round((_exact(value) - _exact(self.low)) / _exact(self.step))))

    def _nth(self, steps: int) -> int | float:
        value = _exact(self.low) + steps * (self._exact_step or 1)
        return int(value) if self.is_integer else float(value)


def _exact(value: int | float) -> Fraction:
    """Return the number as it is written (0.1 is a tenth), so that steps add up."""
    return Fraction(repr(value))


def _kind(value: Any) -> str | None:
    """Return which of the two a mapping is meant to be, even if keys are misspelt."""
    if isinstance(value, Choices | Range):
        return "choices" if isinstance(value, Choices) else "range"
    if not isinstance(value, dict):
        return None
    is_range = not value.keys().isdisjoint(("low", "high", "log", "step"))
    starts_alike = any(str(key)[:1] == "c" for key in value)
    return "choices" if "choices" in value or (starts_alike and not is_range) else "range"


Dimension: TypeAlias = Annotated[
    Annotated[Choices, Tag("choices")] | Annotated[Range, Tag("range")],
    Discriminator(_kind),
    BeforeValidator(lambda value: {"choices": value} if isinstance(value, list) else value),
]
Space: TypeAlias = Mapping[str, Choices | Range]


def _over(text: str) -> str:
    if text in ("cpu", "gpu"):
        return f"{ANY_IMPLEMENTATION} on {text}"
    return text if text in AGGREGATES else fields.arm_text(text)


class Objective(fields.Strict):
    """An objective of the sampler, and the trials of a block that decide its value.

    The sampler gets the value as soon as these trials have ended. If `over` names arms, their mean
    decides.
    """

    direction: Literal["maximize", "minimize"] = Field(description="The better direction.")
    over: Annotated[str, AfterValidator(_over)] = Field(
        "mean",
        description=(
            "Which arms of a block give the value: mean, min or max of all arms; or the mean of the"
            " arms that you name: cpu, gpu, an implementation, a variant,"
            " 'VARIANT: IMPLEMENTATION' or *, each also with ' on HARDWARE'."
        ),
    )

    @classmethod
    def short_form(cls) -> fields.Json:
        """A direction alone."""
        return {"enum": ["maximize", "minimize"]}

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"direction": data} if isinstance(data, str) else data


_CONFIGS = "a whole number, auto, or a list of configs"


def _number_list_or_rule(value: Any) -> Any:
    keys = AutoConfigs.model_fields
    if isinstance(value, dict) and value and not any(nearest(key, keys) for key in value):
        hint = "a list has a dash before each config: - {units: 64, layers: 2}"
        raise fields.refusal(_CONFIGS, hint=hint)
    if isinstance(value, str) and value not in AutoConfigs.words:
        raise fields.refusal(_CONFIGS, shown_value(value), hint=nearest(value, AutoConfigs.words))
    if value in ([], ()):
        raise fields.statement("the list is empty")
    return fields.as_tuple(value)


def _kind_of_configs(value: Any) -> str:
    if isinstance(value, str | dict | AutoConfigs):
        return "auto"
    return "list" if isinstance(value, tuple) else "count"


Configs: TypeAlias = Annotated[
    Annotated[fields.PositiveInt, Field(le=MOST_CONFIGS), Tag("count")]
    | Annotated[tuple[Mapping[fields.ParameterName, fields.ParameterValue], ...], Tag("list")]
    | Annotated[AutoConfigs, Tag("auto")],
    Discriminator(_kind_of_configs),
    BeforeValidator(_number_list_or_rule),
]


class Search(fields.Strict):
    """How configs are suggested: sampler, number, space, objectives and pruner.

    If `configs` is a list, the sampler is `list` and there is no space.
    """

    sampler: chosen_kinds.Sampler = Field(
        default=sampling.Tpe(), description=chosen_kinds.SAMPLER_TEXT
    )
    pruner: chosen_kinds.Pruner | None = Field(default=None, description=chosen_kinds.PRUNER_TEXT)
    configs: Configs | None = Field(
        None,
        description=(
            "The number of configs; auto, or a mapping, to add configs until each speed-up is"
            " precise; or a list of configs, instead of sampler and space."
        ),
    )
    space: Mapping[fields.ParameterName, Dimension] = Field(
        default_factory=dict,
        description="The parameters that vary, each with a list of values or a range.",
    )
    first: Annotated[
        tuple[Mapping[fields.ParameterName, fields.ParameterValue], ...],
        BeforeValidator(fields.as_tuple),
    ] = Field(
        (),
        description=(
            "Configs to begin with, such as your current one; the sampler suggests the rest."
        ),
    )
    objectives: Mapping[fields.MetricName, Objective] = Field(
        default_factory=dict,
        description="The metrics that the sampler reads, each with its direction.",
    )
    open_blocks: fields.PositiveInt | None = Field(
        None,
        description=(
            "At most this many configs are unfinished at a time. The default is just enough to keep"
            " the hardware busy that the objectives read."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _sampler_of_a_list(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("configs"), list | tuple):
            return {"sampler": sampling.Listed.word(), **data}
        return data

    @property
    def is_grid(self) -> bool:
        """Whether the sweep runs every config of the space."""
        return self.sampler.configs_from == "space"

    @property
    def user_classes(self) -> tuple[str, ...]:
        """The names of a sampler and a pruner of the user's, as `package.module:Class`."""
        names = [self.sampler.name, *([self.pruner.name] if self.pruner else [])]
        return tuple(name for name in names if sampling.is_user_class(name))

    @property
    def listed(self) -> tuple[Config, ...]:
        """The configs that the spec lists; empty if a sampler suggests them."""
        return self.configs if isinstance(self.configs, tuple) else ()

    @property
    def auto(self) -> AutoConfigs | None:
        """The rule that decides the number of configs; None if the spec or the space decides it."""
        return self.configs if isinstance(self.configs, AutoConfigs) else None

    @property
    def points(self) -> tuple[Config, ...]:
        """The configs of a list or a grid, each of which is a block; empty for other samplers."""
        return tuple(self.grid()) if self.is_grid else self.listed

    def count(self) -> int:
        """Return the number of configs: `configs`, its length, or the size of a grid."""
        size = self.configs if isinstance(self.configs, int) else len(self.listed) or self.size()
        if size is None:
            raise ValueError("an infinite space has no count: give configs")
        return size

    def is_active(self, name: str, config: Config) -> bool:
        """Return whether `name` is part of a config that has all parameters defined before it."""
        return is_met(self.space[name].when, config)

    def grid(self) -> list[dict[str, ConfigValue]]:
        """Return every distinct config, the first parameter varying slowest.

        Inactive parameters are absent. Raise `ValueError` if the space is infinite.
        """
        configs: list[dict[str, ConfigValue]] = [{}]
        for name, dimension in self.space.items():
            extended = list[dict[str, ConfigValue]]()
            for config in configs:
                if not is_met(dimension.when, config):
                    extended.append(config)
                    continue
                values = dimension.grid_values()
                if values is None:
                    raise ValueError(f"{name} is infinite: give choices or a step")
                extended += [{**config, name: value} for value in values]
            configs = extended
        return configs

    def size(self) -> int | None:
        """Return the number of distinct configs without listing them; None if infinite."""
        return _size(self.space)


_SPACE: TypeAdapter[dict[str, Dimension]] = TypeAdapter(dict[str, Dimension])


def size_of_space(written: Mapping[str, Any]) -> int | None:
    """Return the number of distinct configs of a space in JSON data; None if infinite."""
    return _size(_SPACE.validate_python(written))


def _size(space: Space) -> int | None:
    total = sum(ways for _, ways in _states(space, tuple(space)))
    return None if total == math.inf else int(total)


def _states(space: Space, names: Sequence[str]) -> list[tuple[Config, float]]:
    """Return the states of the first parameters, and the number of configs in each."""
    # A state distinguishes the values that conditions ask for. All others of a parameter count as
    # one, without a value.
    states: list[tuple[Config, float]] = [({}, 1)]
    for name in names:
        dimension, after = space[name], list[tuple[Config, float]]()
        count = math.inf if dimension.count is None else dimension.count
        relevant = list[ConfigValue]()
        for value in itertools.chain(*(later.when.get(name, ()) for later in space.values())):
            if dimension.contains(value) and not any(same(value, listed) for listed in relevant):
                relevant.append(value)
        for config, ways in states:
            if not is_met(dimension.when, config):
                after.append((config, ways))
                continue
            after.extend(({**config, name: value}, ways) for value in relevant)
            if count > len(relevant):
                after.append((config, ways * (count - len(relevant))))
        states = after
    return states


def activation(space: Space, name: str) -> Config | None:
    """Return values of earlier parameters that activate `name`; None if there are none."""
    names = list(space)
    needed = {name}
    for earlier in reversed(names[: names.index(name)]):
        if any(earlier in space[dependent].when for dependent in needed):
            needed.add(earlier)
    states = _states(space, [earlier for earlier in names if earlier in needed - {name}])
    return next((config for config, _ in states if is_met(space[name].when, config)), None)


def example(space: Space, chosen: Config) -> dict[str, ConfigValue]:
    """Return a config of the space that includes `chosen`."""
    config = dict[str, ConfigValue]()
    for name, dimension in space.items():
        if name in chosen:
            config[name] = chosen[name]
        elif is_met(dimension.when, config):
            config[name] = dimension.probes[0]
    return config
