"""The models of the best trials, on the driver's machine until the tracking store has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.analysis.arms.best_configs import ACCURACIES, sign_of
from orchestrator.core.arms import Arm
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial


class BestModels:
    """A folder with the packed model of each arm's best trial so far, `KEY.tar` by its key.

    The better trial has the better accuracy among the `objectives`, else the better first
    objective, else the better accuracy. A restart learns what is best from the `finished` trials.
    """

    def __init__(
        self, folder: Path, objectives: Mapping[str, Direction], finished: Iterable[FinishedTrial]
    ) -> None:
        self._folder = folder
        names = sorted(objectives, key=lambda name: name not in ACCURACIES)
        self._aims = {n: objectives.get(n) or ACCURACIES[n] for n in (*names, *ACCURACIES)}
        self._best: dict[Arm, tuple[float, Path]] = {}
        for trial in finished:
            self.add(trial)

    def add(self, trial: FinishedTrial, model: bytes = b"") -> None:
        """Note a finished trial; if it is its arm's best, its model replaces the last one.

        Raises:
            OSError: the model cannot be written.
        """
        cost, path = self._cost(trial), self._folder / f"{trial.key}.tar"
        least, last = self._best.get(trial.arm, (math.inf, path))
        if cost < least:
            self._best[trial.arm] = cost, path
            if last != path:
                last.unlink(missing_ok=True)
            if model:
                self._folder.mkdir(exist_ok=True)
                path.with_suffix(".part").write_bytes(model)
                path.with_suffix(".part").replace(path)

    def _cost(self, trial: FinishedTrial) -> float:
        """Return the number that is lower for a better trial; infinite if it has no model."""
        if trial.status != "complete" or trial.arm.measure == "timing":
            return math.inf
        aims = ((aim, trial.metrics.get(name)) for name, aim in self._aims.items())
        return next((sign_of(aim) * value for aim, value in aims if value is not None), math.inf)
