"""Configs as a sampler might suggest them: drawn from a search space, each by chance alone."""

from __future__ import annotations

import math
import random

from orchestrator.core.trial import Config, ConfigValue
from orchestrator.spec import Choices, Dimension, Search


def draw_configs(search: Search, number: int, seed: int) -> list[Config]:
    """So many configs of the space, independent of each other; the same ones for one seed."""
    dice = random.Random(seed)
    return [_draw(search, dice) for _ in range(number)]


def _draw(search: Search, dice: random.Random) -> Config:
    config: dict[str, ConfigValue] = {}
    for name, dimension in search.space.items():
        if search.is_active(name, config):
            config[name] = _value(dimension, dice)
    return config


def _value(dimension: Dimension, dice: random.Random) -> ConfigValue:
    if isinstance(dimension, Choices):
        return dice.choice(dimension.choices)
    low, high = dimension.low, dimension.high
    if dimension.step is not None:
        values = dimension.grid_values()
        assert values is not None  # a step makes them countable
        return dice.choice(values)
    if dimension.is_integer:
        if not dimension.log:
            return dice.randint(int(low), int(high))
        drawn = math.exp(dice.uniform(math.log(low - 0.5), math.log(high + 0.5)))
        return min(int(high), max(int(low), round(drawn)))  # as Optuna rounds
    if dimension.log:
        return min(high, max(low, math.exp(dice.uniform(math.log(low), math.log(high)))))
    return dice.uniform(low, high)
