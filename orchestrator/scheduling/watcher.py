"""A view of a running sweep."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from orchestrator.core.trial import Outcome, Trial
    from orchestrator.planning.plan import Plan
    from orchestrator.scheduling.lane_queue import Assignment

_log = logging.getLogger("rnnsweep")


class Watcher:
    """A view of a running sweep; a context manager. This one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the view."""

    def trial_restored(self, trial: Trial, outcome: Outcome) -> None:
        """Count a trial of an earlier start."""

    def trial_assigned(self, assignment: Assignment) -> None:
        """Show that a trial was handed out; it may still wait for its node."""

    def epoch_finished(self, assignment: Assignment, index: int) -> None:
        """Show that a running trial finished an epoch."""

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Show that a trial ended."""

    def warn(self, text: str) -> None:
        """Show a warning."""

    def attempt_lost(self, assignment: Assignment) -> None:
        """Show that an attempt was lost with its worker, and that the trial is retried."""

    def blocks_decided(self, blocks: int, reason: str) -> None:
        """Show that no more blocks are needed, and why."""


class LoggedProgress(Watcher):
    """Progress of a running sweep, as messages of the logger `rnnsweep`."""

    def __init__(self, plan: Plan) -> None:
        _log.info("up to %d trials on %d arms", plan.trials, len(plan.arms))

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Log that a trial ended."""
        reason = f": {outcome.failure.message}" if outcome.failure else ""
        _log.info("block %d, %s: %s%s", trial.block, trial.arm, outcome.status, reason)

    def warn(self, text: str) -> None:
        """Log a warning."""
        _log.warning("%s", text)

    def attempt_lost(self, assignment: Assignment) -> None:
        """Log that an attempt was lost."""
        trial = assignment.trial
        _log.warning("block %d, %s: attempt lost; retrying", trial.block, trial.arm)

    def blocks_decided(self, blocks: int, reason: str) -> None:
        """Log that no more blocks are needed, and why."""
        _log.info("enough after %d blocks: %s", blocks, reason)
