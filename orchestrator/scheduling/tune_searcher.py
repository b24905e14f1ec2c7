"""The Tune searcher that turns blocks into Tune trials, pinned to their nodes."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ray.tune.search import Searcher

from orchestrator.core.trial import Outcome, Trial, outcome_adapter
from orchestrator.execution.job import Job, Rival, TrialLimits, job_adapter
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.recovery import Recovery
from orchestrator.scheduling.session import Session
from workloads.protocol import TrialRequest


class BlockSearch(Searcher):
    """A searcher that hands a session's trials to Tune, and takes their results back.

    Tune's own limit on pending trials must lie above what the session hands out at once (one
    trial more than each lane's slots): the limit is per sweep, and the lanes are unlike.
    """

    def __init__(
        self,
        session: Session,
        python_path: tuple[str, ...],
        recovery: Recovery,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._session = session
        self._python_path = python_path
        self.recovery = recovery
        self._check = check
        self._out: dict[str, Assignment] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its searcher for a restart that never comes (see `save`)."""
        return {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next trial as a Tune config, None while no lane needs one, FINISHED at last.

        Where nothing is out, Tune asks again each second, for ten minutes, and does nothing else:
        what is to be looked at all the time is looked at here.
        """
        self._check()
        with _through_tune():
            self.recovery.settle()
            return self._suggest(trial_id)

    def _suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        assignment = self._session.assign()
        if assignment is None:
            return self.FINISHED if self._session.blocks.done else None
        self._out[trial_id] = assignment
        return {
            "job": job_adapter.dump_json(self._job(assignment)).decode(),
            "node_id": assignment.lane.node.id,
            "bundle": assignment.lane.bundle(assignment.device),
        }

    def _job(self, assignment: Assignment) -> Job:
        """Return the job for the actor: one trial, or an interleaved round."""
        spec = self._session.spec
        limits = spec.limits
        return Job(
            request=self._request(assignment.trial),
            attempt=assignment.attempt,
            issued_s=time.time(),
            limits=TrialLimits(limits.trial_s, limits.idle_s, limits.memory_mib),
            python_path=self._python_path,
            fresh=bool(spec.fresh_trainer_reason),
            cpus=assignment.lane.cpus_used(assignment.trial.arm),
            neighbours=assignment.lane.room(assignment.device) - 1,
            rivals=tuple(
                Rival(self._request(trial), assignment.lane.cpus_used(trial.arm))
                for trial in assignment.others
            ),
            timing=spec.timing if assignment.trial.arm.measure == "timing" else None,
        )

    def _request(self, trial: Trial) -> TrialRequest:
        return self._session.request(trial, trial.arm.device)

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Take a sign of life: the running trial finished an epoch."""
        if "epoch" in result and not result.get("done"):
            with _through_tune():
                self._session.watcher.epoch_finished(self._out[trial_id], result["epoch"])

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Take a trial's outcome, the loss of its worker, or (without a result) its recall."""
        assignment = self._out.pop(trial_id, None)
        if assignment is None:
            return
        with _through_tune():
            if not error and result is None:
                self._session.give_back(assignment)
            elif error or result is None or "outcomes" not in result:
                self.recovery.doubt(assignment)
            else:
                outcomes = [outcome_adapter.validate_json(text) for text in result["outcomes"]]
                self._session.finish(assignment, *outcomes)
                self.recovery.ended(assignment, _best(outcomes))

    @property
    def out(self) -> int:
        """Return how many trials are with Tune."""
        return len(self._out)

    def lose_all(self) -> None:
        """Take back everything that is out: Tune itself was lost.

        Only trials that can have been running are charged an attempt; the last one out is given
        back first, so that they go out again in the order in which they did.
        """
        assignments = list(self._out.values())
        self._out.clear()
        running = _running(assignments)
        for assignment in reversed(assignments):
            if assignment in running:
                self.recovery.doubt(assignment)
            else:
                self._session.give_back(assignment)

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: the journal is what resume reads, never Tune's pickles."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing: see `save`."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: see `save`."""


class Broken(BaseException):
    """An error of ours on its way through Tune, which would swallow it, or take it for its own.

    Tune catches every `Exception` of a searcher when a trial ends, and reports the trial once
    more as failed: the outcome would be lost without a word.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def _through_tune() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Broken(error) from error


def _best(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a round that shows most of its node: one without failure, if any."""
    return next((outcome for outcome in outcomes if outcome.failure is None), outcomes[0])


def _running(assignments: Sequence[Assignment]) -> list[Assignment]:
    """Return the assignments that may have run: on each lane the oldest, up to its slots."""
    taken: Counter[str] = Counter()
    running = []
    for assignment in assignments:
        taken[assignment.lane.node.id] += 1
        if taken[assignment.lane.node.id] <= assignment.lane.room(assignment.device):
            running.append(assignment)
    return running
