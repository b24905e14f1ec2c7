"""The configs of blocks, listed or suggested by Optuna: the one file that uses Optuna.

A sampler here is a function of the sweep's seed, the block's index and the reported results, so
that a resumed sweep gets new configs. Optuna's own samplers, created again with the same seed,
suggest the same configs again, whatever storage they have.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.core.trial import Config, ConfigValue, canonical, derive_seed
from orchestrator.spec import Choices, Dimension, Search

if TYPE_CHECKING:
    import optuna

_TRIES = 64
"""Suggestions that may repeat an earlier config before the space is searched for a new one."""

_ENUMERABLE = 100_000
"""The largest finite space that is searched for a config not suggested yet."""


class Suggester:
    """A source of configs that asks Optuna, and reports the results of blocks to it.

    Listed configs come in the order of the spec, without Optuna.
    """

    def __init__(self, search: Search, seed: int) -> None:
        import optuna  # noqa: PLC0415  (half a second that `--help` does without)

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self._optuna = optuna
        self._search = search
        self._seed = seed
        self._grid: list[Config] | None = None
        if search.sampler == "grid":  # in a random order, so that drift follows no parameter
            self._grid = list(search.grid())
            random.Random(derive_seed(seed, "grid")).shuffle(self._grid)
        self._sequence = optuna.samplers.QMCSampler(  # one for all blocks: it is a sequence
            seed=derive_seed(seed, "suggest"), scramble=True, warn_independent_sampling=False
        )
        directions = [objective.direction for objective in search.objectives.values()]
        self._study = optuna.create_study(
            directions=directions or ["minimize"], sampler=self._sampler(0)
        )
        self._open: dict[int, optuna.Trial] = {}
        self._seen: set[str] = set()

    def suggest(self, index: int) -> Config | None:
        """Return the config of block `index`, unlike all earlier ones; None if none is left.

        If a sampler only repeats itself (the best branch of a conditional space may be small),
        the config is drawn at random.
        """
        if self._search.listed:
            return self._next_listed()
        if self._grid is not None:
            return self._grid[index] if index < len(self._grid) else None
        for attempt in range(2 * _TRIES):
            trial, config = self._ask(index, attempt)
            if canonical(config) not in self._seen:
                return self._keep(index, config, trial)
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return self._any_unseen(index)

    def replay(self, index: int, config: Config) -> None:
        """Take over a block that an earlier start suggested, so that the sampler knows it."""
        if self._search.listed:
            self._seen.add(canonical(config))
        elif self._grid is None:
            self._enforce(index, config)

    def report(self, index: int, values: Sequence[float] | None) -> None:
        """Report a block's objective values to the sampler, or None for a failed block."""
        trial = self._open.pop(index, None)
        if trial is None or not self._search.objectives:
            return
        if values is None:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, list(values))

    def _next_listed(self) -> Config | None:
        """Return the first listed config without a block: new ones of a longer list come next."""
        for config in self._search.listed:
            if canonical(config) not in self._seen:
                self._seen.add(canonical(config))
                return config
        return None

    def _ask(self, index: int, attempt: int = 0) -> tuple[optuna.Trial, Config]:
        self._study.sampler = self._sampler(index, attempt)
        trial = self._study.ask()
        return trial, _walk(trial, self._search)

    def _enforce(self, index: int, config: Config) -> Config:
        """Make Optuna's next trial have this config."""
        self._study.enqueue_trial(dict(config))
        trial, _ = self._ask(index)
        return self._keep(index, config, trial)

    def _keep(self, index: int, config: Config, trial: optuna.Trial) -> Config:
        self._seen.add(canonical(config))
        self._open[index] = trial
        return config

    def _any_unseen(self, index: int) -> Config | None:
        """Return a config not suggested yet, from a finite space that is almost used up."""
        size = self._search.size()
        if size is None or size > _ENUMERABLE:
            return None
        unseen = [config for config in self._search.grid() if canonical(config) not in self._seen]
        if not unseen:
            return None
        config = random.Random(derive_seed(self._seed, "unseen", index)).choice(unseen)
        return self._enforce(index, config)

    def _sampler(self, index: int, attempt: int = 0) -> optuna.samplers.BaseSampler:
        samplers = self._optuna.samplers
        seed = derive_seed(self._seed, "suggest", index, attempt)
        if attempt >= _TRIES:
            return samplers.RandomSampler(seed=seed)
        match self._search.sampler:
            case "tpe":  # the liar keeps blocks that are open at once apart
                return samplers.TPESampler(seed=seed, constant_liar=True)
            case "nsga2":
                return samplers.NSGAIISampler(seed=seed)
            case "qmc":
                return self._sequence
            case "gp":
                return samplers.GPSampler(seed=seed)
            case _:
                return samplers.RandomSampler(seed=seed)


def _walk(trial: optuna.Trial, search: Search) -> Config:
    """Suggest each active parameter in the order of the space: conditions look back only."""
    chosen: dict[str, ConfigValue] = {}
    for name, dimension in search.space.items():
        if search.is_active(name, chosen):
            chosen[name] = _suggest(trial, name, dimension)
    return chosen


def _suggest(trial: optuna.Trial, name: str, dimension: Dimension) -> ConfigValue:
    if isinstance(dimension, Choices):
        return trial.suggest_categorical(name, dimension.choices)
    bounds: dict[str, Any] = {"low": dimension.low, "high": dimension.high, "log": dimension.log}
    if dimension.step is not None:
        bounds["step"] = dimension.step
    if dimension.is_integer:
        return trial.suggest_int(name, **bounds)
    return dimension.nearest(trial.suggest_float(name, **bounds))
