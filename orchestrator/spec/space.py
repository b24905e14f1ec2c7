"""The search of a spec: sampler, objectives, the space or a list of configs, and their number.

Plain frozen models; Optuna's objects are built elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from orchestrator.core.names import ANY_IMPLEMENTATION, split_arm_text
from orchestrator.core.trial import Config, ConfigValue
from orchestrator.spec.dimensions import Choice, Choices, Dimension, Range, is_met, same
from orchestrator.spec.errors import nearest
from orchestrator.spec.fields import MetricName, ParameterName, Strict, arm_text, as_tuple, refusal

Sampler: TypeAlias = Literal["tpe", "nsga2", "random", "grid", "qmc", "gp", "list"]
"""Samplers of Optuna, and `list`: the configs that the spec lists."""

WITHOUT_OBJECTIVE = ("grid", "random", "qmc", "list")
"""Samplers that never look at an objective."""

AGGREGATES = ("mean", "min", "max")

MEMORY_METRICS = ("peak_rss_mib", "peak_gpu_mib")
"""Metrics that need fresh trainers: a warm one keeps the memory of earlier trials."""


def _over(text: str) -> str:
    if text in AGGREGATES:
        return text
    implementation, hardware = split_arm_text(text)
    if text in ("cpu", "gpu"):
        return f"{ANY_IMPLEMENTATION} on {text}"
    if implementation == ANY_IMPLEMENTATION and hardware:
        return f"{ANY_IMPLEMENTATION} on {hardware}"
    if "/" not in implementation:
        hint = nearest(text, (*AGGREGATES, "cpu", "gpu"))
        expected = f"{', '.join(AGGREGATES)}, an arm of the sweep, cpu, gpu or * on HARDWARE"
        raise refusal(expected, hint=hint)
    return arm_text(text)


class Objective(Strict):
    """An objective of the sampler, and the trials of a block that decide its value.

    `over` is `mean`, `min` or `max` over the block's trials, or names the arms whose trials alone
    count, by their mean: `implementation`, `implementation on hardware`, `* on hardware` (a class
    or pattern), or `cpu` or `gpu` for short. The sampler gets the value once these have ended.
    """

    direction: Literal["maximize", "minimize"]
    over: Annotated[str, AfterValidator(_over)] = "mean"

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"direction": data} if isinstance(data, str) else data


ListedConfig: TypeAlias = Mapping[ParameterName, Choice]


def _number_or_list(value: Any) -> Any:
    if isinstance(value, dict):
        hint = "a list has a dash before each config: - {units: 64, layers: 2}"
        raise refusal("a whole number, or a list of configs", hint=hint)
    if value in ([], ()):
        raise refusal("at least one config in the list")
    return as_tuple(value)


Configs: TypeAlias = Annotated[
    Annotated[int, Field(ge=1), Tag("count")] | Annotated[tuple[ListedConfig, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, tuple) else "count"),
    BeforeValidator(_number_or_list),
]


class Search(Strict):
    """The suggestion of configs: sampler, number, space and objectives.

    If `configs` is a list, the sampler is `list` and there is no space.
    """

    sampler: Sampler = "tpe"
    configs: Configs | None = None
    space: Mapping[ParameterName, Dimension] = Field(default_factory=dict)
    objectives: Mapping[MetricName, Objective] = Field(default_factory=dict)
    open_blocks: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _sampler_of_a_list(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("configs"), list | tuple | dict):
            return {"sampler": "list", **data}
        return data

    @property
    def listed(self) -> tuple[Config, ...]:
        """The configs that the spec lists; empty if a sampler suggests them."""
        return self.configs if isinstance(self.configs, tuple) else ()

    def count(self) -> int:
        """Return the number of configs: `configs`, its length, or the size of a grid."""
        if isinstance(self.configs, tuple):
            return len(self.configs)
        if self.configs is not None:
            return self.configs
        size = self.size()
        if size is None:
            raise ValueError("an infinite space has no count: give configs")
        return size

    def is_active(self, name: str, config: Config) -> bool:
        """Return whether `name` is part of a config that has all parameters defined before it."""
        return is_met(self.space[name].when, config)

    def grid(self) -> list[dict[str, ConfigValue]]:
        """Return every distinct config, the first parameter varying slowest.

        Inactive parameters are absent.

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
        """Return the number of distinct configs without listing them; None if infinite."""
        total = sum(ways for _, ways in _states(self.space, tuple(self.space)))
        return None if total == math.inf else int(total)


Space: TypeAlias = Mapping[str, Choices | Range]


def _states(space: Space, names: Sequence[str]) -> list[tuple[Config, float]]:
    """Return the states of the first parameters, and the number of configs in each.

    A state distinguishes the values that conditions ask for. All others of a parameter count as
    one, without a value.
    """
    asked = {name: list[ConfigValue]() for name in space}
    for dimension in space.values():
        for other, values in dimension.when.items():
            known = asked.setdefault(other, [])
            known.extend(v for v in values if not any(same(v, value) for value in known))
    states: list[tuple[Config, float]] = [({}, 1)]
    for name in names:
        dimension, after = space[name], list[tuple[Config, float]]()
        count = math.inf if dimension.count is None else dimension.count
        for config, ways in states:
            if not is_met(dimension.when, config):
                after.append((config, ways))
                continue
            relevant = [value for value in asked[name] if dimension.contains(value)]
            after.extend(({**config, name: value}, ways) for value in relevant)
            if count > len(relevant):
                after.append((config, ways * (count - len(relevant))))
        states = after
    return states


def activation(space: Space, name: str) -> Config | None:
    """Return values of earlier parameters that activate `name`; None if there are none."""
    names = list(space)
    states = _states(space, names[: names.index(name)])
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
