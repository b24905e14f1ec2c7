"""Running a session's trials under Ray Tune: blocks become Tune trials, pinned to their nodes."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import outcome_adapter
from orchestrator.execution.actor import TrialActor
from orchestrator.execution.job import Job, Rival, TrialLimits, job_adapter
from orchestrator.scheduling.lane_queue import Assignment, at_work
from orchestrator.scheduling.recovery import Recovery

_LOOK_S = 0.5

_MANY = 10_000
"""Above what lanes ever have pending, those of nodes that join included."""


def run_trials(
    recovery: Recovery, *, folder: Path, python_path: tuple[str, ...], check: Callable[[], None]
) -> None:
    """Run all that a session still has to hand out; raise `Stopped` if that cannot be done.

    What was out when Ray's memory monitor ended Tune's loop is handed out again, within the limit
    of attempts. `folder` is for Tune's own files. Users' own workloads are found in `python_path`.
    `check` is called about ten times a second; what it raises ends the loop.
    """
    logging.getLogger("ray.tune.analysis").setLevel(logging.CRITICAL)  # it misses loggers' files
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(_MANY)
    abandoned = threading.Event()

    def check_unless_abandoned() -> None:
        if abandoned.is_set():  # the head came back: nobody waits for this thread any more
            raise Stopped
        check()

    try:
        while not recovery.session.blocks.done:
            search = BlockSearch(recovery, python_path, check_unless_abandoned)
            try:
                _aside(_tuner(search, folder).fit, recovery.expect_head)
            except Broken as broken:
                raise broken.args[0] from broken
            except (ray.exceptions.RayError, tune.TuneError):
                if not search.out:
                    raise
            search.lose_all()
    finally:
        abandoned.set()


class BlockSearch(Searcher):
    """A searcher that hands a session's trials to Tune, and takes their results back.

    Tune's own limit on pending trials must lie above what the session hands out at once (one trial
    more than each lane's slots). `check` is called at each step of Tune.
    """

    def __init__(
        self, recovery: Recovery, python_path: tuple[str, ...], check: Callable[[], None]
    ) -> None:
        super().__init__()
        self.recovery, self.check = recovery, check
        self.out: dict[str, Assignment] = {}
        self._session = recovery.session
        self._python_path = python_path

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its parts for a restart that never comes."""
        return {}

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the journal is what resume reads, never Tune's pickles."""

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next trial as a Tune config, None while no lane needs one, FINISHED at last.

        Where nothing is out, Tune only asks again each second: this is the place to look around.
        """
        self.check()
        with _through_tune():
            self.recovery.settle()
            assignment = self._session.assign()
            if assignment is None:
                return self.FINISHED if self._session.blocks.done else None
            self.out[trial_id] = assignment
            return {
                "job": job_adapter.dump_json(self._job(assignment)).decode(),
                "node_id": assignment.lane.node.id,
                "bundle": assignment.lane.bundle(assignment.device),
            }

    def _job(self, assignment: Assignment) -> Job:
        """Return the job for the actor: one trial, or an interleaved round."""
        spec, lane = self._session.spec, assignment.lane
        limits, request = spec.limits, self._session.request
        return Job(
            request=request(assignment.trial),
            attempt=assignment.attempt,
            issued_s=time.time(),
            limits=TrialLimits(limits.trial_s, limits.idle_s, limits.memory_mib),
            python_path=self._python_path,
            fresh=bool(spec.fresh_trainer_reason),
            cpus=lane.cpus_used(assignment.trial.arm),
            neighbours=lane.room(assignment.device) - 1,
            rivals=tuple(
                Rival(request(trial), lane.cpus_used(trial.arm)) for trial in assignment.others
            ),
            timing=spec.timing if assignment.trial.arm.measure == "timing" else None,
        )

    def take_result(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Take the progress of a running job; return whether its trial is to be pruned."""
        if "progress" not in result or result.get("done"):
            return False
        with _through_tune():
            return self._session.take_progress(self.out[trial_id], result["progress"])

    def park(self, trial_id: str, lost_gpu: str) -> bool:
        """Take back the trial of an actor without a GPU; return whether it still has to keep it."""
        with _through_tune():
            if (assignment := self.out.pop(trial_id, None)) is not None:
                self._session.blocks.give_back(assignment, charged=False)
                self.recovery.exclude_gpu(assignment.lane.node, lost_gpu)
            return not self._session.blocks.done

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Take a trial's outcome, the loss of its worker, or (without a result) its recall."""
        assignment = self.out.pop(trial_id, None)
        if assignment is None:
            return
        with _through_tune():
            if not error and result is None:
                self._session.blocks.give_back(assignment, charged=False)
            elif error or result is None or "outcomes" not in result:
                self.recovery.doubt(assignment)
            else:
                outcomes = [outcome_adapter.validate_json(text) for text in result["outcomes"]]
                models = result.get("models", [])
                self._session.finish(assignment, *outcomes, model=b"".join(models))
                models.clear()  # Tune keeps the results of all trials
                # of a round, the outcome without failure shows most of its node
                best = next((outcome for outcome in outcomes if not outcome.failure), outcomes[0])
                self.recovery.ended(assignment.lane.node, best)

    def lose_all(self) -> None:
        """Take back everything that is out, in its order: Tune itself was lost.

        Trials that can have been running (on a lane the oldest, up to its slots) are charged.
        """
        out, self.out = list(self.out.values()), {}
        running = at_work(out)
        for assignment in reversed(out):
            if assignment in running:
                self.recovery.doubt(assignment)
            else:
                self._session.blocks.give_back(assignment, charged=False)


class Broken(BaseException):
    """An error of ours on its way through Tune, which takes `Exception` for a failed trial."""


@contextlib.contextmanager
def _through_tune() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Broken(error) from error


class _Recall(FIFOScheduler):
    """First in, first out; what waits for a node without a lane, or in a pruned block, is recalled.

    Tune would wait for that node for ever, and stop a pruned trial without its outcome. The
    search's check may leave Tune's loop here; a callback of Tune would import MLflow first (1.5 s).
    """

    def __init__(self, search: BlockSearch) -> None:
        super().__init__()
        self._search = search

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as in BlockSearch

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        self._search.check()  # raises no `Exception`: Tune would wait for the trials that run
        blocks = self._search.recovery.session.blocks
        gone = {id for id, one in self._search.out.items() if one.trial.block in blocks.ending}
        for trial in list(tune_controller.get_live_trials()):
            is_gone = trial.trial_id in gone or not blocks.has_lane(trial.config["node_id"])
            if trial.status == TuneTrial.PENDING and is_gone:
                tune_controller.stop_trial(trial)
        return super().choose_trial_to_run(tune_controller)

    def on_trial_result(self, tune_controller: Any, trial: TuneTrial, result: Any) -> str:
        if "lost_gpu" in result:
            is_needed = self._search.park(trial.trial_id, result["lost_gpu"])
            return self.CONTINUE if is_needed else self.STOP
        if self._search.take_result(trial.trial_id, result):
            # Calls of an actor keep their order: this one comes before the next step.
            trial.temporary_state.ray_actor.prune.remote()
        return self.CONTINUE


def _aside(work: Callable[[], object], expect: Callable[[], None]) -> None:
    """Do some work in another thread, as long as what is expected holds."""
    # Tune asks the cluster at each step, and nothing ends the wait for a head that is gone: the
    # thread is left behind then.
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


def _tuner(search: BlockSearch, folder: Path) -> tune.Tuner:
    def resources(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        selector = {"ray.io/node-id": config["node_id"]}  # a label that every Ray node carries
        return tune.PlacementGroupFactory([config["bundle"]], bundle_label_selector=[selector])

    return tune.Tuner(
        tune.with_resources(TrialActor, resources),
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=_Recall(search),
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
