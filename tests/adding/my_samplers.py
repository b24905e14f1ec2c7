"""A sampler and a pruner of a user's own, to copy."""

import random
from typing import Any

from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, RandomSampler


class Neighbours(BaseSampler):
    """Keeps each value of the best block with this probability, and draws the others."""

    def __init__(self, share: float = 0.5, seed: int | None = None) -> None:
        self._share, self._random, self._others = share, random.Random(seed), RandomSampler(seed)

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        done = [one for one in study.get_trials(deepcopy=False) if one.value is not None]
        best = max(done, key=lambda one: one.value, default=None)
        if best is not None and name in best.params and self._random.random() < self._share:
            return best.params[name]
        return self._others.sample_independent(study, trial, name, distribution)


class Patience(BasePruner):
    """Ends a block whose objective has not become better for some epochs."""

    def __init__(self, epochs: int = 3) -> None:
        self._epochs = epochs

    def prune(self, study: Any, trial: Any) -> bool:
        values = [value for _, value in sorted(trial.intermediate_values.items())]
        return (
            len(values) > self._epochs and max(values[-self._epochs :]) <= values[-self._epochs - 1]
        )
