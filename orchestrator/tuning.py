"""Running a session's trials under Ray Tune: the one file that speaks to Tune's controller."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune

from orchestrator.cluster import expect_alive
from orchestrator.placement import Lane, placement_group
from orchestrator.runner import TrialActor
from orchestrator.search import BlockSearch, Broken
from orchestrator.session import Session

_NODES_EVERY_S = 5.0


class _Check(tune.Callback):
    """Leaves Tune's loop where a check raises; Tune calls it about ten times a second."""

    def __init__(self, check: Callable[[], None], expect_nodes: Callable[[], None]) -> None:
        self._check, self._expect_nodes = check, expect_nodes
        self._due_s = time.monotonic() + _NODES_EVERY_S

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as in BlockSearch

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._check()  # raises no `Exception`: Tune would wait for the trials that run
        if time.monotonic() >= self._due_s:
            self._expect_nodes()
            self._due_s = time.monotonic() + _NODES_EVERY_S


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
        Stopped: the cluster has lost a node; that costs no trial an attempt.
    """
    logging.getLogger("ray.tune.analysis").setLevel(logging.CRITICAL)  # it misses loggers' files
    supplied = sum(lane.slots + 1 for lane in lanes)
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(supplied + 1)
    expect_nodes = functools.partial(expect_alive, [lane.node for lane in lanes])
    callback = _Check(check, expect_nodes)
    while not session.blocks.done:
        search = BlockSearch(session, python_path, expect_nodes)
        try:
            _tuner(search, folder, callback).fit()
        except Broken as broken:
            raise broken.error from broken
        except (ray.exceptions.RayError, tune.TuneError):
            if not search.out:
                raise
        search.lose_all()


def _tuner(search: BlockSearch, folder: Path, callback: _Check) -> tune.Tuner:
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
            callbacks=[callback],
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=0),
        ),
    )
