"""Running a session's trials under Ray Tune: the one file that speaks to Tune's controller."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune

from orchestrator.placement import Lane, placement_group
from orchestrator.runner import TrialActor
from orchestrator.search import BlockSearch
from orchestrator.session import Session


class _Check(tune.Callback):
    """Leaves Tune's loop where a check raises; Tune calls it about ten times a second."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as in BlockSearch

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._check()


def run_trials(
    session: Session,
    lanes: Sequence[Lane],
    *,
    folder: Path,
    python_path: tuple[str, ...],
    check: Callable[[], None],
) -> None:
    """Run everything that the session still has to hand out.

    Ray's memory monitor, or the loss of a node, can end Tune's loop; what was out then is
    handed out again, each trial within its limit of attempts.

    Args:
        session: what to run.
        lanes: where it runs.
        folder: for Tune's own files, of which nothing is needed later.
        python_path: where users' own workloads are found.
        check: called about ten times a second; what it raises ends the loop.

    Raises:
        ray.exceptions.RaySystemError: the cluster itself is gone.
    """
    logging.getLogger("ray.tune.analysis").setLevel(logging.CRITICAL)  # it misses loggers' files
    supplied = sum(lane.slots + 1 for lane in lanes)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(supplied + 1)
    while not session.blocks.done:
        search = BlockSearch(session, python_path)
        try:
            _tuner(search, folder, check).fit()
        except (ray.exceptions.RayError, tune.TuneError):
            if not search.out or not ray.is_initialized():
                raise
        search.lose_all()


def _tuner(search: BlockSearch, folder: Path, check: Callable[[], None]) -> tune.Tuner:
    def resources(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        return placement_group(config["node_id"], config["bundle"])

    return tune.Tuner(
        tune.with_resources(TrialActor, resources),
        tune_config=tune.TuneConfig(
            search_alg=search,
            num_samples=-1,  # until the searcher says that it has finished
            reuse_actors=True,
            trial_name_creator=str,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.resolve()),
            callbacks=[_Check(check)],
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=0),
        ),
    )
