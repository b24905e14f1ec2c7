"""A trial on its way: as it is handed out, and what its outcomes lead to."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.core.trial import FinishedTrial, Trial
from orchestrator.planning.lanes import Lane
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Assignment:
    """A trial handed out: on which lane, and the how-manieth attempt it is.

    `others` are the rest of its round, where that is timed in slices, turn by turn. `rerun` is how
    often the round was done before.
    """

    trial: Trial
    lane: Lane
    attempt: int = 1
    others: tuple[Trial, ...] = ()
    rerun: int = 0

    @property
    def device(self) -> Device:
        """What of its node it runs on."""
        return self.trial.arm.device

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All that run, the first one first."""
        return (self.trial, *self.others)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What the outcomes of an issue lead to.

    `again` are the trials of a disturbed round that is done again: the next ones on its lane.
    `standing` are the outcomes from before a rerun that stand, as it failed.
    """

    again: tuple[Trial, ...] = ()
    standing: tuple[FinishedTrial, ...] = ()
