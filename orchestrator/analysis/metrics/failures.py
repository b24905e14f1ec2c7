"""Trials that did not complete, by arm and reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, OutcomeStatus


@dataclass(frozen=True, slots=True)
class ExcludedTrials:
    """The trials of an arm that did not complete for one reason, with the first one's message."""

    arm: Arm
    status: OutcomeStatus
    reason: str
    trials: int
    message: str
    run_id: str


def excluded_trials(arm: Arm, trials: Sequence[FinishedTrial]) -> list[ExcludedTrials]:
    """Return one row for each reason for which trials of the arm did not complete."""
    groups: dict[tuple[OutcomeStatus, str], list[FinishedTrial]] = {}
    for trial in trials:
        if trial.arm == arm and trial.status != "complete":
            reason = trial.failure.reason if trial.failure else trial.status
            groups.setdefault((trial.status, reason), []).append(trial)
    return [
        ExcludedTrials(arm, status, reason, len(members), _message(members[0]), members[0].run_id)
        for (status, reason), members in groups.items()
    ]


def _message(trial: FinishedTrial) -> str:
    if trial.failure is not None:
        return trial.failure.message
    if trial.kernel is not None:
        return f"asked {trial.kernel.asked}, ran {trial.kernel.ran}: {trial.kernel.evidence}"
    return ""
