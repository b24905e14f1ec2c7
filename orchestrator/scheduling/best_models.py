"""The models of the best trials, on the driver's machine until the tracking store has them."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from orchestrator.analysis.arms.best_configs import sign_of
from orchestrator.analysis.results import USUAL_RESULTS
from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal, one_line
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial
from workloads.data.cache import atomic_write


class BestModels:
    """A folder with the packed model of each arm's best trial so far, `KEY.tar` by its key.

    The better trial has the better accuracy among the `objectives`, else the better first
    objective, else the better accuracy. Only trials with a model count, even if the file is empty
    (the store has it). A restart learns what is best from the `finished` trials.
    """

    def __init__(
        self, folder: Path, objectives: Mapping[str, Direction], finished: Iterable[FinishedTrial]
    ) -> None:
        self._folder = folder
        names = sorted(objectives, key=lambda name: name not in USUAL_RESULTS)
        self._aims = {n: objectives.get(n) or USUAL_RESULTS[n] for n in (*names, *USUAL_RESULTS)}
        self._best: dict[Arm, tuple[float, Path]] = {}
        for trial in finished:
            self.add(trial)

    def write(self, trial: FinishedTrial, model: bytes) -> None:
        """Write a trial's model if it is its arm's best, or raise `OSError`; `add` it later."""
        least, _ = self._best.get(trial.arm, (math.inf, None))
        if model and self._value_to_minimize(trial) < least:
            with atomic_write(_path(self._folder, trial)) as file:
                file.write(model)

    def add(self, trial: FinishedTrial) -> None:
        """Note a recorded trial; if it has a model, the worse one of its arm's two is deleted."""
        path = _path(self._folder, trial)
        if not path.exists():
            return
        value = self._value_to_minimize(trial)
        least, best = self._best.get(trial.arm, (math.inf, path))
        is_better = value < least
        self._best[trial.arm] = (value, path) if is_better else (least, best)
        if best != path:
            worse = best if is_better else path
            with contextlib.suppress(OSError):  # the next start tries again
                worse.unlink()

    def _value_to_minimize(self, trial: FinishedTrial) -> float:
        """Return a number that is lower for a better trial, by the first objective that it has.

        It is infinite for trials that did not complete, and for trials that were timed only.
        """
        if trial.status != "complete" or trial.arm.measure == "timing":
            return math.inf
        aims = ((aim, trial.metrics.get(name)) for name, aim in self._aims.items())
        return next((sign_of(aim) * value for aim, value in aims if value is not None), math.inf)


def log_models(
    folder: Path,
    trials: Iterable[FinishedTrial],
    log: Callable[[str, Path, float], None],
    limit_s: float,
) -> list[str]:
    """Log the kept models of recorded trials, empty their files, and return warnings for the rest.

    `log` takes a run id, a file and a limit in seconds; all of them take `limit_s` at most.
    """
    end_s, warnings = time.monotonic() + limit_s, list[str]()
    for trial in trials:
        path = _path(folder, trial)
        if not path.exists() or not path.stat().st_size:
            continue
        try:
            log(trial.run_id, path, max(0.0, end_s - time.monotonic()))
            path.write_bytes(b"")
        except (Refusal, OSError) as error:
            warnings.append(
                f"{trial.arm}: its best model is not in MLflow: {one_line(error)}. "
                f"The next start tries again with {path}"
            )
    return warnings


def _path(folder: Path, trial: FinishedTrial) -> Path:
    return folder / f"{trial.key}.tar"
