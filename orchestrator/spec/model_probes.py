"""The settings with which an own model is built before a sweep, on behalf of all its configs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.trial import ConfigValue, value_text
from orchestrator.spec.space import activation, example
from orchestrator.spec.sweep_spec import SweepSpec

_MOST_LISTED = 8
"""Configs of a list that are built: the first ones."""


@dataclass(frozen=True, slots=True)
class ModelProbe:
    """Whole settings of a config, with the variant that has them, and a clause for messages."""

    settings: Mapping[str, Any]
    variant: str | None = None
    because: str = ""


def model_probes(spec: SweepSpec) -> tuple[ModelProbe, ...]:
    """Return the probes: for each variant the listed configs, or the ends of each parameter."""
    variants: list[tuple[str | None, Mapping[str, Any]]] = [
        (entry.name, entry.settings) for entry in spec.arms.variants
    ]
    return tuple(
        ModelProbe({**spec.written_settings(), **settings, **config}, name, because)
        for name, settings in variants or [(None, {})]
        for config, because in _probed_configs(spec)
    )


def varied_settings(spec: SweepSpec) -> tuple[str, ...]:
    """Return the settings that differ between blocks or variants."""
    names = [
        *spec.search.space,
        *(name for config in spec.search.listed for name in config),
        *(name for entry in spec.arms.variants for name in entry.settings),
    ]
    return tuple(dict.fromkeys(names))


def _probed_configs(spec: SweepSpec) -> Iterator[tuple[Mapping[str, ConfigValue], str]]:
    """Yield the configs that stand for all, each with words for where its values come from."""
    if spec.search.listed:
        for index, config in enumerate(spec.search.listed[:_MOST_LISTED]):
            yield config, f" (in search.configs[{index}])"
        return
    space = spec.search.space
    first = example(space, {})
    yield first, ""
    for name, dimension in space.items():
        for value in dimension.probes:
            config = example(space, {**(activation(space, name) or {}), name: value})
            text = value_text(value)
            if config != first:
                yield config, f" (the space has {name}: {text})"
