"""The outcomes of trials, passed on to the suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, Outcome, Trial
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.suggestions import Suggestions


class Ledger:
    """The outcomes and attempts of a sweep's trials.

    `trials` are those of each block that has begun, in the order to run them.
    """

    def __init__(self, suggestions: Suggestions) -> None:
        self.trials: dict[int, tuple[Trial, ...]] = {}
        self._suggestions = suggestions
        self._outcomes: dict[str, Outcome] = {}
        self._attempts: dict[str, int] = {}

    def admit(self, index: int, trials: tuple[Trial, ...]) -> None:
        """Take the trials of a new block."""
        self.trials[index] = trials
        self._report(index)

    def has(self, trial: Trial) -> bool:
        """Return whether a trial has an outcome."""
        return trial.key in self._outcomes

    def begin(self, members: Sequence[Trial]) -> int:
        """Count an attempt of trials that run together; return the attempt number."""
        attempt = 1 + max(self._attempts.get(member.key, 0) for member in members)
        self._attempts |= dict.fromkeys((member.key for member in members), attempt)
        return attempt

    def uncharge(self, assignment: Assignment) -> None:
        """Take back an attempt that never began."""
        before = assignment.attempt - 1
        self._attempts |= dict.fromkeys((trial.key for trial in assignment.trials), before)

    def take(self, ended: Iterable[FinishedTrial]) -> None:
        """Take outcomes; report their blocks to the sampler as soon as possible."""
        for finished in ended:
            self._outcomes[finished.key] = finished.outcome
            self._suggestions.observe(finished)
            self._report(finished.block)

    def _report(self, index: int) -> None:
        if not self._suggestions.is_open(index):
            return
        outcomes: dict[Arm, list[Outcome]] = {}
        for trial in self.trials[index]:
            if trial.key in self._outcomes:
                outcomes.setdefault(trial.arm, []).append(self._outcomes[trial.key])
        self._suggestions.report(index, outcomes)
