"""Running a session's trials under Ray Tune: the one file that uses Tune's controller."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler

from orchestrator.core.stop_signal import Stopped
from orchestrator.execution.actor import TrialActor
from orchestrator.planning.lanes import placement_group
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.session import Session
from orchestrator.scheduling.tune_searcher import BlockSearch, Broken

_LOOK_S = 0.5

_MANY = 10_000
"""Above what lanes ever have pending, those of nodes that join included."""


class _Recall(FIFOScheduler):
    """First in, first out; what still waits for a node that is not used any more is taken back.

    A trial is pinned to its node for good: Tune would wait for the node's return, for ever.

    A check, called ten times a second or so, leaves Tune's loop if it raises. It is no callback of
    Tune, which imports MLflow and more to count callbacks: 1.5 s.
    """

    def __init__(self, is_in_use: Callable[[str], bool], check: Callable[[], None]) -> None:
        super().__init__()
        self._is_in_use = is_in_use
        self._check = check

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as in BlockSearch

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        self._check()  # raises no `Exception`: Tune would wait for the trials that run
        for trial in list(tune_controller.get_live_trials()):
            if trial.status == Trial.PENDING and not self._is_in_use(trial.config["node_id"]):
                tune_controller.stop_trial(trial)
        return super().choose_trial_to_run(tune_controller)


def run_trials(
    session: Session,
    recovery: Recovery,
    *,
    folder: Path,
    python_path: tuple[str, ...],
    check: Callable[[], None],
) -> None:
    """Run everything that the session still has to hand out.

    Ray's memory monitor can end Tune's loop; what was out then is handed out again, each trial
    within its limit of attempts.

    Args:
        session: what to run.
        upkeep: on which nodes it runs.
        folder: for Tune's own files, of which nothing is needed later.
        python_path: where users' own workloads are found.
        check: called about ten times a second; what it raises ends the loop.

    Raises:
        Stopped: the cluster is lost, or what is left waits for hardware in vain.
    """
    logging.getLogger("ray.tune.analysis").setLevel(logging.CRITICAL)  # it misses loggers' files
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(_MANY)
    abandoned = threading.Event()

    def check_unless_abandoned() -> None:
        if abandoned.is_set():  # the head came back: nobody waits for this thread any more
            raise Stopped
        check()

    try:
        while not session.blocks.done:
            search = BlockSearch(session, python_path, recovery, check_unless_abandoned)
            tuner = _tuner(search, folder, recovery, check_unless_abandoned)
            try:
                _aside(tuner.fit, recovery.expect_head)
            except Broken as broken:
                raise broken.error from broken
            except (ray.exceptions.RayError, tune.TuneError):
                if not search.out:
                    raise
            search.lose_all()
    finally:
        abandoned.set()


def _aside(work: Callable[[], object], expect: Callable[[], None]) -> None:
    """Do some work in another thread, as long as what is expected holds.

    Tune asks the cluster at each step, and nothing ends the wait for a head that is gone: the
    thread is left behind then.
    """
    raised: list[BaseException] = []

    def working() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again, where it is waited for
            raised.append(error)

    thread = threading.Thread(target=working, daemon=True, name="tune")
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
        expect()
    if raised:
        raise raised[0]


def _tuner(
    search: BlockSearch, folder: Path, recovery: Recovery, check: Callable[[], None]
) -> tune.Tuner:
    def resources(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        return placement_group(config["node_id"], config["bundle"])

    return tune.Tuner(
        tune.with_resources(TrialActor, resources),
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=_Recall(recovery.is_in_use, check),
            num_samples=-1,  # until the searcher returns FINISHED
            reuse_actors=True,
            trial_name_creator=str,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.resolve()),
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=0),
        ),
    )
