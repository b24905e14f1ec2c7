"""The source of configs: those that the spec lists, or suggestions of Optuna.

A sampler here is a function of the sweep's seed, the block's index and the reported results:
Optuna's own, created again with the same seed, suggest the same configs again.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Sequence
from typing import Any

import optuna
from optuna import samplers
from optuna.trial import TrialState

from orchestrator.core.trial import Config, ConfigValue, canonical, derive_seed
from orchestrator.planning import objectives
from orchestrator.planning.objectives import LEARNING
from orchestrator.spec import Choices, Dimension, Search

_TRIES = 64  # suggestions that may repeat a config before the space is searched for a new one
_ENUMERABLE = 100_000  # the largest finite space that is searched for a config not suggested yet

OPEN_SEEN = 100
"""The latest open blocks that samplers see: each one makes a suggestion dearer."""


class _Memory(optuna.storages.InMemoryStorage):
    """Optuna's storage, of which samplers see what is `shown`, by number, and pruners all."""

    shown: Sequence[int] | None = None

    def get_all_trials(self, study_id: int, deepcopy: bool = True, states: Any = None) -> Any:
        if self.shown is None or states == (TrialState.WAITING,):
            return super().get_all_trials(study_id, deepcopy, states)
        shown = map(self.get_trial, self.shown)
        return [trial for trial in shown if states is None or trial.state in states]


class _Sequence(samplers.QMCSampler):
    """A quasi-random sequence, of which each block takes the point of its `index`, in any start."""

    index = 0

    def _find_sample_id(self, *_: object) -> int:
        return max(0, self.index - 1)  # the first block is random: it shows the parameters


class Suggester:
    """A source of configs that asks Optuna, and reports the results of blocks to it.

    Listed configs come in the order of the spec, those of a grid in a random one.
    """

    def __init__(self, search: Search, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self._search = search
        self._seed = seed
        points = list(search.points)
        if search.sampler == "grid":  # in a random order, so that drift follows no parameter
            random.Random(derive_seed(seed, "grid")).shuffle(points)
        self._own = iter(points) if points else None
        self._sequence = _Sequence(
            seed=derive_seed(seed, "suggest"), scramble=True, warn_independent_sampling=False
        )
        pruner = None
        if search.pruner is not None:
            options = search.pruner.model_dump(exclude={"name"}, exclude_unset=True)
            pruner = getattr(optuna.pruners, f"{search.pruner.name.title()}Pruner")(**options)
        directions = [objective.direction for objective in search.objectives.values()]
        self._memory, self._finished = _Memory(), list[int]()
        self._generation = self._entered = 0  # of NSGA-II: the latest, and its first trial
        self._study = optuna.create_study(
            storage=self._memory,
            directions=directions or ["minimize"],
            sampler=self._sampler(0),
            pruner=pruner,
            study_name=f"seed {seed}",  # Hyperband draws brackets by it
        )
        self._open: dict[int, optuna.Trial] = {}
        self._epochs: set[tuple[int, int]] = set()
        self._seen: set[str] = set()

    def suggest(self, index: int) -> Config | None:
        """Return the config of block `index`, unlike all earlier ones; None if none is left.

        If a sampler only repeats itself, the config is drawn at random.
        """
        if self._own is not None:  # of a longer list, or a larger grid, new ones come next
            unseen = (config for config in self._own if canonical(config) not in self._seen)
            own = next(unseen, None)
            return None if own is None else self._keep(index, own, self._study.ask())
        for attempt in range(2 * _TRIES):
            trial, config = self._ask(index, attempt)
            if canonical(config) not in self._seen:
                return self._keep(index, config, trial)
            self._study.tell(trial, state=TrialState.FAIL)
        return self._any_unseen(index)

    def replay(self, index: int, config: Config) -> None:
        """Take over a block that an earlier start suggested, so that the sampler knows it."""
        if self._own is not None:
            self._keep(index, config, self._study.ask())
        else:
            self._enforce(index, config)

    def should_prune(self, index: int, step: int, value: float) -> bool:
        """Report an epoch of an open block, once; return whether the pruner ends the block."""
        trial = self._open.get(index)
        if trial is None or self._search.pruner is None or (index, step) in self._epochs:
            return False
        self._epochs.add((index, step))
        trial.report(value, step)
        return trial.should_prune()

    def report(
        self, index: int, values: Sequence[float] | None, *, is_pruned: bool = False
    ) -> None:
        """Report a block's values; None for a failed block, or a pruned one: its epochs count."""
        trial = self._open.pop(index, None)
        if trial is None or not self._search.objectives:
            return
        if values is None:
            self._study.tell(trial, state=TrialState.PRUNED if is_pruned else TrialState.FAIL)
        else:
            self._study.tell(trial, list(values))
        if values is not None or is_pruned:
            self._finished.append(trial.number)
        if self._search.sampler in objectives.SEE_LATEST:
            del self._finished[: -objectives.LATEST_SEEN]

    def _ask(self, index: int, attempt: int = 0) -> tuple[optuna.Trial, Config]:
        self._study.sampler = self._sampler(index, attempt)
        # A sampler that does not learn needs one trial at most: QMC suggests its parameters.
        finished = self._finished if self._search.sampler in LEARNING else self._finished[:1]
        latest = itertools.islice(reversed(self._open.values()), OPEN_SEEN)
        self._memory.shown = sorted({*finished, *(trial.number for trial in latest)})
        trial = self._study.ask()
        config = _walk(trial, self._search)
        if self._search.sampler == "nsga2":
            self._enter_generation(trial.number, self._sampler(index))
        self._memory.shown = None
        return trial, config

    def _enter_generation(self, number: int, sampler: samplers.NSGAIISampler) -> None:
        """Give a trial its generation, if replayed too; forget those that have no more children."""
        generation = sampler.get_trial_generation(self._study, self._memory.get_trial(number))
        if generation > self._generation:
            parents = {one.number for one in sampler.get_parent_population(self._study, generation)}
            self._finished = [n for n in self._finished if n in parents or n >= self._entered]
            self._generation, self._entered = generation, number

    def _enforce(self, index: int, config: Config) -> Config:
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

    def _sampler(self, index: int, attempt: int = 0) -> samplers.BaseSampler:
        seed = derive_seed(self._seed, "suggest", index, attempt)
        if attempt >= (1 if self._search.sampler == "qmc" else _TRIES):
            return samplers.RandomSampler(seed=seed)
        match self._search.sampler:
            case "tpe":  # the liar keeps blocks that are open at once apart
                return samplers.TPESampler(seed=seed, constant_liar=True)
            case "nsga2":
                return samplers.NSGAIISampler(seed=seed)
            case "qmc":
                self._sequence.index = index
                self._sequence._independent_sampler = samplers.RandomSampler(seed=seed)
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
