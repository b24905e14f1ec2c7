"""Which finished blocks a sampler sees. Each of them makes a suggestion dearer.

Optuna reads all trials of a study at each suggestion. A sweep of ten thousand blocks would wait
longer for a config than for its trials, so the study shows a sampler only the trials that it needs.
They are known by their numbers in the study, one trial for each block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import optuna

SEEN, OPEN_SEEN = 300, 100
"""The latest finished and open blocks that a learning sampler sees (genetic ones: see below)."""


class SeenTrials(Protocol):
    """The finished trials that a sampler sees."""

    numbers: list[int]

    def add(self, number: int) -> None:
        """Take the number of a trial that has finished."""

    def asked(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        make_sampler: Callable[[], optuna.samplers.BaseSampler],
    ) -> None:
        """Note that a `trial` was suggested, or is replayed; `make_sampler` makes its sampler."""


class FirstTrial:
    """The first finished trial: it shows the parameters to a sampler that does not learn."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, number: int) -> None:
        """Keep the first number."""
        if not self.numbers:
            self.numbers.append(number)

    def asked(self, *_: object) -> None:
        """Take nothing."""


class LatestTrials:
    """The latest finished trials, at most `most`."""

    def __init__(self, most: int) -> None:
        self.numbers: list[int] = []
        self._most = most

    def add(self, number: int) -> None:
        """Add a number; forget the oldest one if there are too many."""
        self.numbers.append(number)
        del self.numbers[: -self._most]

    def asked(self, *_: object) -> None:
        """Take nothing."""


class Generations:
    """The trials of which a genetic algorithm (`BaseGASampler`) breeds the next ones.

    These are the parents of the present generation, and what has finished since it began.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._generation = self._first = 0  # the present one, and the number of its first trial

    def add(self, number: int) -> None:
        """Add a number."""
        self.numbers.append(number)

    def asked(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        make_sampler: Callable[[], optuna.samplers.BaseSampler],
    ) -> None:
        """Give a trial its generation, if replayed too; forget trials that breed no more."""
        from optuna.samplers import BaseGASampler  # noqa: PLC0415

        sampler = make_sampler()
        assert isinstance(sampler, BaseGASampler)
        generation = sampler.get_trial_generation(study, trial)
        if generation <= self._generation:
            return
        parents = {parent.number for parent in sampler.get_parent_population(study, generation)}
        self.numbers = [n for n in self.numbers if n in parents or n >= self._first]
        self._generation, self._first = generation, trial.number
