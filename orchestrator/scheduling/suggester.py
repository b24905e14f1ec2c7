"""The source of configs: those that the spec lists, or suggestions of Optuna.

A suggestion is a function of the sweep's seed, the block's index and the reported results. Each
block has a sampler of its own, which `orchestrator.sampling` makes, so that a resumed sweep
suggests the same configs again.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import optuna
from optuna.trial import TrialState

from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Config, ConfigValue, canonical, derive_seed
from orchestrator.sampling import OPEN_SEEN, BlockSeed, UserClassError, is_user_class
from orchestrator.sampling.study_file import optuna_value
from orchestrator.sampling.user_classes import describe_user_error
from orchestrator.spec import Choices, Dimension, Search
from orchestrator.spec.space import same

_ATTEMPTS = 128
"""Suggestions that may repeat a config before the space is searched for a new one."""

_ENUMERABLE = 100_000
"""The largest finite space that is searched for a config not suggested yet."""


class _Memory(optuna.storages.InMemoryStorage):
    """Optuna's storage, of which samplers see what is `shown`, by number, and pruners all.

    A sampler also sees the latest trial, the one that it is asked for: an exhaustive one looks up
    there what it has suggested so far.
    """

    shown: Sequence[int] | None = None
    latest: int = -1

    def create_new_trial(self, study_id: int, template_trial: Any = None) -> int:
        """Make a trial, and note that it is the latest one."""
        self.latest = super().create_new_trial(study_id, template_trial)
        return self.latest

    def get_all_trials(self, study_id: int, deepcopy: bool = True, states: Any = None) -> Any:
        """Return the trials that may be seen now; Optuna looks for enqueued ones among all."""
        if self.shown is None or states == (TrialState.WAITING,):
            return super().get_all_trials(study_id, deepcopy, states)
        shown = map(self.get_trial, sorted({*self.shown, self.latest}))
        return [trial for trial in shown if states is None or trial.state in states]


class _Study(optuna.Study):
    """Optuna's study, in which a sampler of the user's may say that it has no more configs."""

    is_stopped = False

    def stop(self) -> None:
        """Note that the sampler wants to end; Optuna itself stops its own loop only."""
        self.is_stopped = True


class Suggester:
    """A source of configs that asks Optuna, and reports the results of blocks to it.

    Listed configs come in the order of the spec, configs of a grid in a random order; the first
    configs of a spec come before suggestions. An error in a sampler or a pruner of the user's stops
    the sweep: it is raised as `Stopped`.
    """

    def __init__(self, search: Search, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self._search = search
        self._seed = seed
        points = list(search.points)
        if search.is_grid:  # in a random order, so that drift follows no parameter
            random.Random(derive_seed(seed, "grid")).shuffle(points)
        self._points = iter(points) if points else None
        directions = [objective.direction for objective in search.objectives.values()]
        self._memory = _Memory()
        with self._errors_of_the_user("search.sampler"):
            self._finished = search.sampler.memory()
            sampler = self._sampler(0)
        with self._errors_of_the_user("search.pruner"):
            pruner = search.pruner.make() if search.pruner else None
        name = f"seed {seed}"  # Hyperband draws brackets by it
        optuna.create_study(
            storage=self._memory, directions=directions or ["minimize"], study_name=name
        )
        self._study = _Study(name, self._memory, sampler, pruner)
        self._open: dict[int, optuna.Trial] = {}
        self._epochs: set[tuple[int, int]] = set()
        self._seen: set[str] = set()

    def suggest(self, index: int) -> Config | None:
        """Return the config of block `index`, which no earlier block has; None if none is left.

        If a sampler only repeats itself, the config is drawn at random.
        """
        if self._points is not None:  # of a longer list, or a larger grid, new ones come next
            unseen = (config for config in self._points if canonical(config) not in self._seen)
            point = next(unseen, None)
            return None if point is None else self._open_block(index, point, self._study.ask())
        unseen = (c for c in self._search.first if canonical(c) not in self._seen)
        if (first := next(unseen, None)) is not None:
            return self._suggest_given(index, first)
        if self._study.is_stopped:
            return None
        for attempt in range(_ATTEMPTS):
            trial, config = self._ask_sampler(index, attempt)
            if canonical(config) not in self._seen:
                return self._open_block(index, config, trial)
            self._end_trial(trial, state=TrialState.FAIL)
        return self._any_unseen(index)

    def replay(self, index: int, config: Config) -> None:
        """Take over a block that an earlier start suggested, so that the sampler knows it."""
        if self._points is not None:
            self._open_block(index, config, self._study.ask())
        else:
            self._suggest_given(index, config)

    def should_prune(self, index: int, step: int, value: float) -> bool:
        """Report an epoch of an open block, once; return whether the pruner ends the block."""
        trial = self._open.get(index)
        if trial is None or self._search.pruner is None or (index, step) in self._epochs:
            return False
        self._epochs.add((index, step))
        trial.report(value, step)
        with self._errors_of_the_user("search.pruner"):
            return trial.should_prune()

    def report(self, index: int, values: Sequence[float] | None, *, is_bad: bool = False) -> None:
        """Report a block's values to the sampler. Pass None for a failed or a bad block.

        A bad one, which was pruned or whose training diverged, ranks below all that have values.
        """
        trial = self._open.pop(index, None)
        if trial is None or not self._search.objectives:
            return
        if values is None:
            self._end_trial(trial, state=TrialState.PRUNED if is_bad else TrialState.FAIL)
        else:
            self._end_trial(trial, list(values))
        if values is not None or is_bad:
            self._finished.add(trial.number)

    def _ask_sampler(self, index: int, attempt: int = 0) -> tuple[optuna.Trial, Config]:
        """Return a trial with the config that the block's sampler suggests, or is to replay."""
        latest = itertools.islice(reversed(self._open.values()), OPEN_SEEN)
        shown = {*self._finished.numbers, *(trial.number for trial in latest)}
        with self._errors_of_the_user("search.sampler", index):
            self._study.sampler = self._sampler(index, attempt)
            self._memory.shown = sorted(shown)
            trial = self._study.ask()
            config = _suggest_config(trial, self._search)
            # The block's first sampler, as in a replay: the last one may be a random one.
            asked = self._memory.get_trial(trial.number)
            self._finished.asked(self._study, asked, lambda: self._sampler(index))
            self._memory.shown = None
            if is_user_class(self._search.sampler.name):
                _expect_in_space(config, self._search)
        return trial, config

    def _end_trial(
        self,
        trial: optuna.Trial,
        values: Sequence[float] | None = None,
        state: TrialState | None = None,
    ) -> None:
        """End a trial in Optuna, which may run code of a sampler of the user's."""
        with self._errors_of_the_user("search.sampler"):  # its `after_trial`
            self._study.tell(trial, values, state)

    def _suggest_given(self, index: int, config: Config) -> Config:
        """Open a block with a given config: Optuna's queue makes a trial of it."""
        self._study.enqueue_trial({name: optuna_value(value) for name, value in config.items()})
        trial, _ = self._ask_sampler(index)
        return self._open_block(index, config, trial)

    def _open_block(self, index: int, config: Config, trial: optuna.Trial) -> Config:
        """Note that a block has this config, and that its trial in Optuna waits for a result."""
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
        return self._suggest_given(index, config)

    def _sampler(self, index: int, attempt: int = 0) -> optuna.samplers.BaseSampler:
        """Return the sampler of a block, which is a random one after too many attempts."""
        seed = derive_seed(self._seed, "suggest", index, attempt)
        if attempt >= self._search.sampler.attempts:
            return optuna.samplers.RandomSampler(seed=seed)
        of_sweep = derive_seed(self._seed, "suggest")
        return self._search.sampler.make(BlockSeed(index, seed, of_sweep))

    @contextlib.contextmanager
    def _errors_of_the_user(self, key: str, index: int | None = None) -> Iterator[None]:
        """Stop the sweep at an error in a class of the user's; let others through."""
        kind = self._search.pruner if key == "search.pruner" else self._search.sampler
        try:
            yield
        except UserClassError as error:
            raise Stopped(f"{key}: {error}") from error
        except Exception as error:
            if kind is None or not is_user_class(kind.name):
                raise
            doing = "" if index is None else f", asked for block {index},"
            problem = describe_user_error(error, kind.name)
            raise Stopped(f"{key}: {kind.name}{doing} failed: {problem}") from error


def _expect_in_space(config: Config, search: Search) -> None:
    """Raise `ValueError` for a value that a sampler of the user's took from outside the space."""
    for name, value in config.items():
        if not search.space[name].contains(value):
            raise ValueError(f"it suggested {name}: {value!r}, outside of search.space")


def _suggest_config(trial: optuna.Trial, search: Search) -> Config:
    """Suggest each active parameter in the order of the space: conditions look back only."""
    chosen: dict[str, ConfigValue] = {}
    for name, dimension in search.space.items():
        if search.is_active(name, chosen):
            chosen[name] = _suggest_value(trial, name, dimension)
    return chosen


def _suggest_value(trial: optuna.Trial, name: str, dimension: Dimension) -> ConfigValue:
    if isinstance(dimension, Choices):
        values = [optuna_value(choice) for choice in dimension.choices]
        chosen = trial.suggest_categorical(name, values)
        pairs = zip(dimension.choices, values, strict=True)
        return next((choice for choice, value in pairs if same(value, chosen)), chosen)
    bounds: dict[str, Any] = {"low": dimension.low, "high": dimension.high, "log": dimension.log}
    if dimension.step is not None:
        bounds["step"] = dimension.step
    if dimension.is_integer:
        return trial.suggest_int(name, **bounds)
    return dimension.nearest(trial.suggest_float(name, **bounds))
