"""A trial that was handed out, and what follows from its outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.trial import FinishedTrial, Trial
from orchestrator.planning.lanes import Lane
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Assignment:
    """A trial that was handed out to a lane, with the attempt number.

    `others` are the rest of its round, if the round is timed in slices. `rerun` is how often the
    round was done before.
    """

    trial: Trial
    lane: Lane
    attempt: int = 1
    others: tuple[Trial, ...] = ()
    rerun: int = 0

    @property
    def device(self) -> Device:
        """Return the device of its node that it runs on."""
        return self.trial.arm.device

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return all trials that run, the first one first."""
        return (self.trial, *self.others)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The consequences of an assignment's outcomes.

    `reruns` are the trials of a disturbed round that runs once more: the next ones on its lane.
    `reinstated` are the earlier outcomes that count again because a rerun failed.
    """

    reruns: tuple[Trial, ...] = ()
    reinstated: tuple[FinishedTrial, ...] = ()
