"""Random configs of a search space, in place of those that a sampler might suggest."""

from __future__ import annotations

import math
import random

from orchestrator.core.trial import Config, ConfigValue
from orchestrator.spec import Choices, Dimension, Search


def draw_configs(search: Search, number: int, seed: int) -> list[Config]:
    """Return independent random configs of the space, reproducible by the seed."""
    rng = random.Random(seed)
    return [_draw(search, rng) for _ in range(number)]


def _draw(search: Search, rng: random.Random) -> Config:
    config: dict[str, ConfigValue] = {}
    for name, dimension in search.space.items():
        if search.is_active(name, config):
            config[name] = _value(dimension, rng)
    return config


def _value(dimension: Dimension, rng: random.Random) -> ConfigValue:
    if isinstance(dimension, Choices):
        return rng.choice(dimension.choices)
    low, high = dimension.low, dimension.high
    if dimension.step is not None:
        values = dimension.grid_values()
        assert values is not None  # a step makes them countable
        return rng.choice(values)
    if dimension.is_integer:
        if not dimension.log:
            return rng.randint(int(low), int(high))
        drawn = math.exp(rng.uniform(math.log(low - 0.5), math.log(high + 0.5)))
        return min(int(high), max(int(low), round(drawn)))  # as Optuna rounds
    if dimension.log:
        return min(high, max(low, math.exp(rng.uniform(math.log(low), math.log(high)))))
    return rng.uniform(low, high)
