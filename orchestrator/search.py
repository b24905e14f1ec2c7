"""The Tune searcher that turns blocks into Tune trials, pinned to their nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search import Searcher

from orchestrator.blocks import Issue
from orchestrator.runner import Job, Limits, job_adapter
from orchestrator.session import Session
from orchestrator.trial import outcome_adapter


class BlockSearch(Searcher):
    """Hands a session's trials to Tune, and takes their results back.

    Tune's own limit on pending trials must lie above what the session hands out at once (one
    trial more than each lane's slots): the limit is per sweep, and the lanes are unlike.
    """

    def __init__(
        self,
        session: Session,
        python_path: tuple[str, ...],
        expect_nodes: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._session = session
        self._python_path = python_path
        self._expect_nodes = expect_nodes  # raises where a worker went with its node
        self._out: dict[str, Issue] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune pickles its searcher for a restart that never comes (see `save`)."""
        return {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial as a Tune config, None while no lane wants one, FINISHED at the end."""
        issue = self._session.issue()
        if issue is None:
            return self.FINISHED if self._session.blocks.done else None
        self._out[trial_id] = issue
        limits = self._session.spec.limits
        job = Job(
            request=self._session.request(issue.trial, issue.device),
            attempt=issue.attempt,
            issued_s=time.time(),
            limits=Limits(limits.trial_s, limits.idle_s, limits.memory_mib),
            python_path=self._python_path,
        )
        return {
            "job": job_adapter.dump_json(job).decode(),
            "node_id": issue.lane.node.id,
            "bundle": issue.lane.bundle,
        }

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """A sign of life: the running trial finished an epoch."""
        if "epoch" in result and not result.get("done"):
            self._session.watcher.epoch(self._out[trial_id], result["epoch"])

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """A trial's outcome, or the loss of its worker."""
        issue = self._out.pop(trial_id, None)
        if issue is None:
            return
        if error or result is None or "outcome" not in result:
            self._expect_nodes()
            self._session.lose(issue)
        else:
            self._session.finish(issue, outcome_adapter.validate_json(result["outcome"]))

    @property
    def out(self) -> int:
        """How many trials are with Tune."""
        return len(self._out)

    def lose_all(self) -> None:
        """Take back everything that is out: Tune itself was lost."""
        if self._out:
            self._expect_nodes()
        for trial_id in list(self._out):
            self._session.lose(self._out.pop(trial_id))

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: the journal is what resume reads, never Tune's pickles."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing: see `save`."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save nothing: see `save`."""
