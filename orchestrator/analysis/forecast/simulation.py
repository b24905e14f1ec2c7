"""Simulations of the missing trials of a sweep.

Each config that is not known yet is drawn from the search space; each trial takes what a model
expects times an error as it made on configs that it was not shown, and one more error is shared by
all trials of an arm in one run: by what its mean may be off. Both errors grow with a config's
distance from what was measured, as the intervals of single predictions do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.analysis.cost_model import CostModel, NotPredicted, draw_configs, params_of
from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, canonical
from orchestrator.spec import Search

RUNS = 300
_POOL = 200

FAR = 0.2
"""The share of configs to come that may be further from those measured than one that is predicted
alone may be: of a sum they are a part, and the errors drawn for them are the larger."""

_FURTHEST = 3.0
"""Beyond which no config may be, in ranges or factors of two: nothing is known there."""

Costs = NDArray[np.float64]
"""One row a run, one column a trial."""


@dataclass(frozen=True, slots=True)
class RemainingTrials:
    """The missing trials of a sweep.

    `suggested` are those whose config was suggested. `unknown` is the number of blocks without a
    config yet; each has the `arms`' trials (with repeats).
    """

    suggested: tuple[tuple[Config, Arm], ...]
    unknown: int
    arms: Mapping[Arm, int]
    search: Search
    tried: tuple[Config, ...]
    settings: Mapping[str, Any]

    def trials(self, arm: Arm) -> int:
        """Return how many of the missing trials are the arm's."""
        return self.unknown * self.arms[arm] + sum(other == arm for _, other in self.suggested)

    def named(self) -> list[tuple[Config, Arm]]:
        """Return every known config to come, once for each arm on which it is missing."""
        rows = {(canonical(config), arm): config for config, arm in self.suggested}
        tried = {canonical(config) for config in self.tried}
        for config in self.search.listed if self.unknown else ():
            if canonical(config) not in tried:
                rows |= {(canonical(config), arm): config for arm in self.arms}
        return [(config, arm) for (_, arm), config in rows.items()]


@dataclass(frozen=True, slots=True)
class Draws:
    """The configs that unknown blocks may have, and which of them, run by run."""

    pool: Sequence[Config]
    picks: NDArray[np.int64]
    dice: np.random.Generator


def make_draws(ahead: RemainingTrials) -> Draws:
    """Return draws that are the same for all predictions of one plan."""
    pool, dice = _pool(ahead), np.random.default_rng(0)
    if _is_countable(ahead.search) and len(pool) == ahead.unknown:  # all of them, in every run
        return Draws(pool, np.tile(np.arange(len(pool)), (RUNS, 1)), dice)
    return Draws(pool, dice.integers(max(1, len(pool)), size=(RUNS, ahead.unknown)), dice)


def simulate(
    model: CostModel, ahead: RemainingTrials, draws: Draws, arms: Sequence[Arm], far: float = FAR
) -> dict[Arm, Costs]:
    """Return what each missing trial of the arms takes, in each simulated run.

    Raises:
        NotPredicted: an arm or a word that no trial had; or more than this share of the configs is
            too far from those measured.
    """
    _expect_near(model, ahead, draws, arms, far)
    errors = np.array(model.errors)
    unsure = float(np.std(errors)) / math.sqrt(model.held_out.configs)
    costs = {}
    for arm in arms:
        configs = [config for config, other in ahead.suggested if other == arm]
        logs, widths = _expected(model, ahead, configs, arm)
        every, wide = np.tile(logs, (RUNS, 1)), np.tile(widths, (RUNS, 1))
        if draws.pool and ahead.unknown and ahead.arms[arm]:
            logs, widths = _expected(model, ahead, draws.pool, arm)
            every = np.hstack([every, np.repeat(logs[draws.picks], ahead.arms[arm], axis=1)])
            wide = np.hstack([wide, np.repeat(widths[draws.picks], ahead.arms[arm], axis=1)])
        error = draws.dice.choice(errors, size=every.shape)
        shared = draws.dice.normal(0, unsure, size=(RUNS, 1))
        costs[arm] = np.exp(every + wide * (error + shared))
    return costs


def _expected(
    model: CostModel, ahead: RemainingTrials, configs: Sequence[Config], arm: Arm
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logarithm of what each config takes on the arm, and the width of its errors."""
    if not configs:
        return np.zeros(0), np.zeros(0)
    rows = [(params_of(ahead.settings, config, arm), arm) for config in configs]
    return model.logs(rows), np.array([1 + model.features.beyond(params) for params, _ in rows])


def _expect_near(
    model: CostModel, ahead: RemainingTrials, draws: Draws, arms: Sequence[Arm], far: float
) -> None:
    rows = [(config, arm) for config, arm in ahead.suggested if arm in arms]
    rows += [(config, arm) for config in draws.pool for arm in arms if ahead.arms[arm]]
    features, reasons = model.features, list[str]()
    for config, arm in rows:
        params = params_of(ahead.settings, config, arm)
        distance_reason = features.distance_reason(params)
        reason = features.novelty_reason(params, arm)
        if reason is None and features.beyond(params) > _FURTHEST:
            reason = distance_reason
        if reason is not None:
            raise NotPredicted(f"{model.target}: {reason}")
        if distance_reason is not None:
            reasons.append(distance_reason)
    if len(reasons) > far * len(rows):
        raise NotPredicted(f"{model.target}: {reasons[0]}")


def _pool(ahead: RemainingTrials) -> list[Config]:
    """Return configs that unknown blocks may have."""
    if not ahead.unknown:
        return []
    if not _is_countable(ahead.search):
        return draw_configs(ahead.search, _POOL, seed=0)
    tried = {canonical(config) for config in ahead.tried}
    every = ahead.search.listed or tuple(ahead.search.grid())
    return [config for config in every if canonical(config) not in tried] or list(every)


def _is_countable(search: Search) -> bool:
    return bool(search.listed) or search.sampler == "grid"
