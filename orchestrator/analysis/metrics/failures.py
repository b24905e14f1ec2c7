"""Trials that ended otherwise than complete, by arm and reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from orchestrator.core.records import TrialRecord
from orchestrator.core.trial import Arm, FailureReason, OutcomeStatus

REASONS = get_args(FailureReason)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Trials of an arm that ended otherwise than complete, for one reason; the first of them."""

    arm: Arm
    status: OutcomeStatus
    reason: str
    trials: int
    message: str
    run_id: str


def left_out(arm: Arm, trials: Sequence[TrialRecord]) -> list[LeftOut]:
    """One row for each way in which trials of the arm did not complete."""
    groups: dict[tuple[OutcomeStatus, str], list[TrialRecord]] = {}
    for trial in trials:
        if trial.arm == arm and trial.status != "complete":
            reason = failure_parts(trial.failure)[0] if trial.status == "failed" else trial.status
            groups.setdefault((trial.status, reason), []).append(trial)
    return [
        LeftOut(arm, status, reason, len(found), _message(found[0]), found[0].run_id)
        for (status, reason), found in groups.items()
    ]


def failure_parts(failure: str) -> tuple[str, str]:
    """Reason and message of a trial's failure text: `time_limit: took longer than 60 s`."""
    head, _, rest = failure.partition(":")
    if head.strip() in REASONS:
        return head.strip(), rest.strip()
    return "unknown", failure.strip()


def _message(trial: TrialRecord) -> str:
    if trial.status == "failed":
        return failure_parts(trial.failure)[1]
    if trial.status == "wrong_kernel" and trial.kernel is not None:
        return f"asked {trial.kernel.asked}, ran {trial.kernel.ran}: {trial.kernel.evidence}"
    return trial.failure
