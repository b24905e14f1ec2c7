"""Running a session's rounds under Ray Tune: slots become Tune trials, pinned to their nodes."""

import contextlib
import logging
import math
import os
import threading
import time
from collections import Counter
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
from orchestrator.execution.job import Job, JobProgress, RoundTrial, TrialLimits, job_adapter
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.recovery import Recovery

_LOOK_S = 0.5
_START_S, _LONGEST_START_S = 20.0, 300.0  # of an actor: usually, and at most
_TRIALS_PER_TUNE_TRIAL = 200  # each with 30 kB of answers, which Tune keeps
_MOST_PENDING = 10_000  # above what all lanes ever have pending, lanes of later nodes included


def run_trials(
    recovery: Recovery, folder: Path, python_path: tuple[str, ...], check: Callable[[], None]
) -> None:
    """Run all that a session still has to hand out; raise `Stopped` if that cannot be done.

    What was out when Ray's memory monitor ended Tune's loop is handed out again, within the limit
    of attempts. `folder` is for Tune's own files. Users' own workloads are found in `python_path`.
    `check` is called about ten times a second; what it raises ends the loop.
    """
    logging.getLogger("ray.tune.analysis").setLevel(logging.CRITICAL)  # it misses loggers' files
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(_MOST_PENDING)
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # it takes no reporter
    abandoned = threading.Event()

    def check_unless_abandoned() -> None:
        if abandoned.is_set():  # the head came back: nobody waits for this thread any more
            raise Stopped
        check()

    try:
        while not recovery.session.dispatcher.done:
            search = BlockSearch(recovery, python_path, check_unless_abandoned)
            try:
                _run_beside(_make_tuner(search, folder).fit, recovery.expect_head)
            except ErrorInTune as broken:
                raise broken.args[0] from broken
            except (ray.exceptions.RayError, tune.TuneError):
                if not search.out:
                    raise
            search.lose_all()
        recovery.session.show_running()
    finally:
        abandoned.set()


class BlockSearch(Searcher):
    """A searcher that hands a session's rounds to Tune, and takes their results back.

    A Tune trial is a slot of a lane at work: its actor gets the lane's next round when one ends, as
    Tune keeps each of its trials for ever, and what the actor answers until the Tune trial ends.
    `out` is what runs, by the Tune trial's id, and `_began_s` since when. Tune's own limit on
    pending trials must lie above the number of slots. `check` is called at each step.
    """

    def __init__(
        self, recovery: Recovery, python_path: tuple[str, ...], check: Callable[[], None]
    ) -> None:
        super().__init__()
        self.recovery, self.check = recovery, check
        self.out: dict[str, Assignment] = {}
        self._began_s: dict[str, float] = {}
        self._waiting: dict[str, tuple[Assignment, dict[str, Any]]] = {}
        self._slots_in_use = Counter[str]()
        self._trials_ended = Counter[str]()
        self._show_s = 0.0
        self._session = recovery.session
        self._python_path = python_path

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its parts for a restart that never comes."""
        return {}

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: the journal is what resume reads, never Tune's pickles."""

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the first round of a free slot as a Tune config, None without one, or FINISHED.

        Where nothing is out, Tune only asks again each second: this is the place to look around.
        """
        self.check()
        with _errors_end_tune():
            self.recovery.settle()
            self._hand_out()
            if time.monotonic() >= self._show_s:
                self._session.show_running()
                self._show_s = time.monotonic() + _LOOK_S
            for key, (assignment, _) in self._waiting.items():
                room = assignment.lane.room(assignment.device)
                if self._slots_in_use[assignment.lane.node.id] < room:
                    return self._hand_to_tune(trial_id, key)
            return self.FINISHED if self._session.dispatcher.done else None

    def _hand_out(self) -> None:
        """Take what lanes want to run, and have next; first give back what must not begin."""
        dispatcher = self._session.dispatcher
        for key, (assignment, _) in reversed(list(self._waiting.items())):
            if dispatcher.is_obsolete(assignment):
                del self._waiting[key]
                dispatcher.give_back(assignment, charged=False)
        for assignment in iter(self._session.assign, None):
            self._waiting[assignment.key] = (
                assignment,
                {
                    "job": job_adapter.dump_json(self._job_for(assignment)).decode(),
                    "node_id": assignment.lane.node.id,
                    "bundle": assignment.lane.bundle(assignment.device),
                },
            )

    def has_lane(self, assignment: Assignment) -> bool:
        """Return whether the assignment's lane is still there."""
        return self._session.dispatcher.has_lane(assignment.lane.node.id)

    def _hand_to_tune(self, trial_id: str, key: str) -> dict[str, Any]:
        """Return a waiting assignment as the config of a Tune trial, which has its slot now."""
        assignment, config = self._waiting.pop(key)
        self.out[trial_id] = assignment
        self.note_not_begun(trial_id)
        self._slots_in_use[assignment.lane.node.id] += 1
        return config

    def note_not_begun(self, trial_id: str) -> None:
        """Note that a round begins now at the earliest: Tune has no worker for it yet."""
        self._began_s[trial_id] = time.time()

    def _take_from_tune(self, trial_id: str) -> Assignment:
        """Return the assignment of a Tune trial, which has its slot no more."""
        assignment = self.out.pop(trial_id)
        del self._began_s[trial_id]
        self._slots_in_use[assignment.lane.node.id] -= 1
        return assignment

    def _report_lost_worker(self, trial_id: str) -> None:
        """Take a job back whose worker is gone, and let the recovery decide about its retry."""
        began_s = self._began_s[trial_id]
        self.recovery.lose_worker(self._take_from_tune(trial_id), began_s, time.time())

    def _job_for(self, assignment: Assignment) -> Job:
        """Return what the actor needs to run an assignment."""
        spec, lane = self._session.spec, assignment.lane
        limits = spec.limits
        return Job(
            trials=tuple(
                RoundTrial(self._session.request(trial), lane.cpus_used(trial.arm))
                for trial in assignment.trials
            ),
            attempt=assignment.attempt,
            issued_s=time.time(),
            limits=TrialLimits(limits.trial_s, limits.idle_s, limits.memory_mib),
            timing=spec.timing,
            python_path=self._python_path,
            fresh=bool(spec.fresh_trainer_reason),
            neighbours=lane.room(assignment.device) - 1,
        )

    def take_progress(self, trial_id: str, progress: JobProgress) -> bool:
        """Take the progress of a running job; return whether its round is to be pruned."""
        with _errors_end_tune():
            return self._session.take_progress(self.out[trial_id], progress)

    def take_outcomes(self, trial_id: str, result: Mapping[str, Any]) -> dict[str, Any] | None:
        """Take the outcomes of a Tune trial's job; return its next one, None if none waits."""
        with _errors_end_tune():
            assignment = self._take_from_tune(trial_id)
            outcomes = [outcome_adapter.validate_json(text) for text in result["outcomes"]]
            models = result.get("models", [])
            self._session.finish(assignment, *outcomes, models=models)
            models.clear()  # Tune keeps the last result of each trial
            # the outcome without failure shows most of the node
            best = next((outcome for outcome in outcomes if not outcome.failure), outcomes[0])
            self.recovery.count_end(assignment.lane.node, best)
            self._hand_out()
            self._trials_ended[trial_id] += len(outcomes)
            if self._trials_ended[trial_id] >= _TRIALS_PER_TUNE_TRIAL:
                return None
            lane, bundle = assignment.lane, assignment.lane.bundle(assignment.device)
            for key, (following, config) in self._waiting.items():
                if following.lane.node.id == lane.node.id and config["bundle"] == bundle:
                    return self._hand_to_tune(trial_id, key)
            return None

    def park(self, trial_id: str, lost_gpu: str) -> bool:
        """Take back the round of an actor without a GPU; return whether it still has to keep it."""
        with _errors_end_tune():
            if trial_id in self.out:
                assignment = self._take_from_tune(trial_id)
                self._session.dispatcher.give_back(assignment, charged=False)
                self.recovery.lose_gpu(assignment.lane.node, lost_gpu)
            return not self._session.dispatcher.done

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Take the loss of a job's worker, or (without a result) its recall."""
        if trial_id not in self.out:
            return
        with _errors_end_tune():
            if error or result is not None:
                self._report_lost_worker(trial_id)
            else:
                self._session.dispatcher.give_back(self._take_from_tune(trial_id), charged=False)

    def lose_start(self, trial_id: str) -> None:
        """Take a job back whose worker does not start; raise `Stopped` if there is no other lane.

        Without another lane all rounds would wait as long, one after another.
        """
        node = self.out[trial_id].lane.node
        if len(self._session.dispatcher.lanes.queues) > 1:
            self._report_lost_worker(trial_id)
            return
        raise Stopped(
            f"no Ray worker has started on {node.profile.hostname or 'this machine'} within"
            f" {_LONGEST_START_S:.0f} seconds"
        )

    def lose_all(self) -> None:
        """Take back all that is out: Tune was lost. Only what can have been running is charged."""
        for assignment, _ in reversed(self._waiting.values()):
            self._session.dispatcher.give_back(assignment, charged=False)
        for trial_id in reversed(list(self.out)):
            self._report_lost_worker(trial_id)


class ErrorInTune(BaseException):
    """An error of this project on its way through Tune, which takes `Exception` for a failed trial.

    Its only argument is the error itself.
    """


@contextlib.contextmanager
def _errors_end_tune() -> Iterator[None]:
    """Let any error in the block end Tune's loop, instead of a trial."""
    try:
        yield
    except Exception as error:
        raise ErrorInTune(error) from error


class _Scheduler(FIFOScheduler):
    """Gives actors their next job, and recalls what waits for a node without a lane.

    Tune would wait for that node for ever. The search's check may leave Tune's loop here; a
    callback of Tune would import MLflow first (1.5 s).
    """

    def __init__(self, search: BlockSearch) -> None:
        super().__init__()
        self._search = search
        self._pending_s: dict[str, float] = {}
        """When each Tune trial that has not begun was first seen; infinite once that was shown."""
        self._starting_s: dict[str, float] = {}
        """Since when the worker of each Tune trial that has not begun can start."""

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as in BlockSearch

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """Return a pending trial whose node still has a lane, and end those whose node has none."""
        self._search.check()  # raises no `Exception`: Tune would wait for the trials that run
        for trial in list(tune_controller.get_live_trials()):
            if trial.status == TuneTrial.PENDING:
                assignment = self._search.out[trial.trial_id]
                if self._search.has_lane(assignment):
                    self._expect_start(trial.trial_id, assignment)
                    if not self._starts_too_long(tune_controller, trial):
                        return trial
                    self._search.lose_start(trial.trial_id)
                tune_controller.stop_trial(trial)
        return None

    def _starts_too_long(self, tune_controller: Any, trial: TuneTrial) -> bool:
        """Return whether the worker of a pending trial should have started long ago.

        The time in which the trial waits for CPUs that another sweep may have does not count.
        """
        controller = tune_controller._tune_controller  # its wrapper warns of what is read here
        actor = controller._trial_to_actor.get(trial)
        has_worker = actor is not None and controller._actor_manager.is_actor_started(actor)
        if not has_worker and self._search.recovery.is_shared:
            return False
        began_s = self._starting_s.setdefault(trial.trial_id, time.monotonic())
        return time.monotonic() - began_s > _LONGEST_START_S

    def _expect_start(self, trial_id: str, assignment: Assignment) -> None:
        """Show, once, that a round waits long for its node: another sweep may have its CPUs."""
        self._search.note_not_begun(trial_id)
        if time.monotonic() - self._pending_s.setdefault(trial_id, time.monotonic()) > _START_S:
            self._pending_s[trial_id] = math.inf
            self._search.recovery.session.watcher.warn(
                f"nothing has started on {assignment.lane.node.profile.hostname} for {_START_S:.0f}"
                " seconds: another sweep may be using its CPUs or GPUs. Waiting for it"
            )

    def on_trial_result(self, tune_controller: Any, trial: TuneTrial, result: Any) -> str:
        """Answer an actor: with its next job, a pruning, nothing, or the end of its Tune trial."""
        if "lost_gpu" in result:
            is_needed = self._search.park(trial.trial_id, result["lost_gpu"])
            return self.CONTINUE if is_needed else self.STOP
        # Calls of an actor keep their order: these come before the next step.
        actor = trial.temporary_state.ray_actor
        if "outcomes" in result:
            following = self._search.take_outcomes(trial.trial_id, result)
            if following is None:
                return self.STOP
            actor.reset_config.remote(following)
        elif self._search.take_progress(trial.trial_id, result["progress"]):
            actor.prune.remote()
        return self.CONTINUE


def _run_beside(work: Callable[[], object], expect: Callable[[], None]) -> None:
    """Do the work in a thread, and call `expect` until it ends; raise what either raises.

    Tune asks the cluster at each step, and nothing ends the wait for a head that is gone. The
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


def _make_tuner(search: BlockSearch, folder: Path) -> tune.Tuner:
    """Return Tune with everything switched off that the journal and the recovery do themselves."""

    def resources(config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Return what a trial takes, on the one node that its lane is of."""
        selector = {"ray.io/node-id": config["node_id"]}  # a label that every Ray node carries
        return tune.PlacementGroupFactory([config["bundle"]], bundle_label_selector=[selector])

    return tune.Tuner(
        tune.with_resources(TrialActor, resources),
        tune_config=tune.TuneConfig(
            search_alg=search,
            scheduler=_Scheduler(search),
            num_samples=-1,  # until the searcher returns FINISHED
            reuse_actors=True,
            trial_name_creator=str,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=str(folder.resolve()),
            verbose=0,
            progress_reporter=tune.CLIReporter(),  # a notebook's would clear the cell's output
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=0),
        ),
    )
