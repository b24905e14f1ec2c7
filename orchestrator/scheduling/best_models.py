"""The models of the best trials, on the driver's machine until the tracking store has them."""

import contextlib
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from orchestrator.analysis.arms.best_configs import sign_of
from orchestrator.analysis.results import USUAL_RESULTS
from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal, one_line
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial
from workloads.data.cache import atomic_write

_NEWEST = 8
"""The newest configs of each arm whose models are kept, whatever they reached.

Another arm may make one of them the best config: the arms of a config end close in time."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A trial with a model, and numbers that are lower for better ones, by each order of aims."""

    trial: FinishedTrial
    path: Path
    costs: tuple[float, ...]


class BestModels:
    """A folder with the packed models of the best trials so far, `KEY.tar` by the trial's key.

    Each arm keeps the models of its own best config, of the best config over all arms (which may be
    used on any arm that is equal there), and of its `newest` configs. The better config has the
    better accuracy among the `objectives`, else the better first objective, else the better
    accuracy; and by another order the better first objective before all others. Only trials with a
    model count, even if the file is empty (the store has it). A restart learns what is best from
    the `finished` trials.
    """

    def __init__(
        self,
        folder: Path,
        objectives: Mapping[str, Direction],
        finished: Iterable[FinishedTrial],
        newest: int = _NEWEST,
    ) -> None:
        self._folder, self._newest = folder, newest
        accuracy_first = sorted(objectives, key=lambda name: name not in USUAL_RESULTS)
        self._orders = [
            {name: objectives.get(name) or USUAL_RESULTS[name] for name in (*order, *USUAL_RESULTS)}
            for order in (accuracy_first, objectives)
        ]
        self._kept: dict[str, _Kept] = {}
        for trial in finished:
            self.add(trial)

    @property
    def best_trials(self) -> list[FinishedTrial]:
        """The trials of best configs, which have a model."""
        best = self._best_configs()
        return [k.trial for k in self._kept.values() if (k.trial.arm, k.trial.block) in best]

    def write(self, trial: FinishedTrial, model: bytes) -> None:
        """Write the model of a trial that completed, or raise `OSError`; `add` it later."""
        if model and math.isfinite(self._costs(trial)[0]):
            with atomic_write(_path(self._folder, trial)) as file:
                file.write(model)

    def add(self, trial: FinishedTrial) -> None:
        """Note a recorded trial; models that are not to be kept any more are deleted."""
        path = _path(self._folder, trial)
        if not path.exists():
            return
        self._kept.pop(trial.key, None)  # the newest one comes last
        self._kept[trial.key] = _Kept(trial, path, self._costs(trial))
        wanted = self._best_configs() | self._newest_configs()
        for kept in list(self._kept.values()):
            if (kept.trial.arm, kept.trial.block) not in wanted:
                del self._kept[kept.trial.key]
                with contextlib.suppress(OSError):  # the next start tries again
                    kept.path.unlink()

    def _best_configs(self) -> set[tuple[Arm, int]]:
        """Return the arms with their own best config, and with the best one over all arms."""
        best = set[tuple[Arm, int]]()
        for order in range(len(self._orders)):
            costs = defaultdict[tuple[Arm, int], list[float]](list)
            for kept in self._kept.values():
                costs[kept.trial.arm, kept.trial.block].append(kept.costs[order])
            means = {config: fmean(of_config) for config, of_config in costs.items()}
            ranked = sorted(means, key=lambda config: (means[config], config[1]))
            block = ranked[0][1] if ranked else None
            own = {arm: (arm, block) for arm, block in reversed(ranked)}
            best.update(own.values(), ((arm, b) for arm, b in ranked if b == block))
        return best

    def _newest_configs(self) -> set[tuple[Arm, int]]:
        blocks = defaultdict[Arm, dict[int, None]](dict)
        for kept in reversed(self._kept.values()):
            blocks[kept.trial.arm].setdefault(kept.trial.block)
        return {
            (arm, block) for arm, of_arm in blocks.items() for block in [*of_arm][: self._newest]
        }

    def _costs(self, trial: FinishedTrial) -> tuple[float, ...]:
        """Return a number for each order of aims, by the first of its objectives that it has.

        It is infinite for trials that did not complete, and for trials that were timed only.
        """
        if trial.status != "complete" or trial.arm.measure == "timing":
            return (math.inf,) * len(self._orders)
        return tuple(
            next(
                (
                    sign_of(aim) * trial.metrics[name]
                    for name, aim in order.items()
                    if name in trial.metrics
                ),
                math.inf,
            )
            for order in self._orders
        )


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
