"""Lanes at work: the trials that wait for a lane, and those that are handed out to it."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import attrgetter

from orchestrator.core.trial import Trial, config_text
from orchestrator.planning.lanes import Lane, LaneGroup
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Assignment:
    """A trial handed out to a lane, with the attempt number; `others` are the rest of its round."""

    trial: Trial
    lane: Lane
    attempt: int = 1
    others: tuple[Trial, ...] = ()

    def __str__(self) -> str:
        arms = f"{len(self.trials)} arms in turns" if self.others else str(self.trial.arm)
        return f"block {self.trial.block}  {arms}  {config_text(self.trial.config)}"

    @property
    def device(self) -> Device:
        """Return the device of its node that it runs on."""
        return self.trial.arm.device

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Return all trials that run, the first one first."""
        return (self.trial, *self.others)


def at_work(assignments: Iterable[Assignment]) -> list[Assignment]:
    """Return those that can be running: on each lane the oldest, up to its slots."""
    running, taken = list[Assignment](), Counter[str]()
    for assignment in assignments:
        taken[assignment.lane.node.id] += 1
        if taken[assignment.lane.node.id] <= assignment.lane.room(assignment.device):
            running.append(assignment)
    return running


@dataclass(slots=True)
class LaneQueue:
    """The trials of a lane: those that wait, and how many are out.

    `groups` are those of the lane. `turn` is the device at work, if its node's take turns.
    """

    lane: Lane
    position: int
    groups: tuple[LaneGroup, ...] = ()
    waiting: deque[Trial] = field(default_factory=deque)
    out: int = 0
    turn: Device = "gpu"

    @property
    def spare(self) -> int:
        """Return how many more trials can run at once; one beyond that may wait."""
        return self.lane.room(self.turn if self.lane.takes_turns else "gpu") - self.out

    @property
    def is_short(self) -> bool:
        """Return whether the lane needs more trials: a next one; for turns, one for each slot."""
        if not self.lane.takes_turns:
            return not self.waiting
        if not self.waiting and not self.out:
            self.turn = "gpu"
        gathered = len({trial.block for trial in self.waiting})
        return self.turn == "gpu" and self._in_turn() is None and gathered < self.lane.slots

    def pick(self) -> Trial | None:
        """Take the next trial: the first that waits for the device whose turn it is."""
        trial = self._in_turn()
        if trial is None and self.waiting and not self.out:
            self.turn = "cpu" if self.turn == "gpu" else "gpu"
            trial = self._in_turn()
        if trial is not None:
            self.waiting.remove(trial)
        return trial

    def take_round(self, trial: Trial) -> list[Trial]:
        """Take the trials that are timed in turns with a picked one: the rest of its round here."""
        round_of = attrgetter("block", "repeat", "arm.measure")
        others = [
            other
            for other in self.waiting
            if trial.arm.measure == "timing" and round_of(other) == round_of(trial)
            if not self.lane.takes_turns or trial.arm.device == other.arm.device
        ]
        for other in others:
            self.waiting.remove(other)
        return others

    def _in_turn(self) -> Trial | None:
        any_device = not self.lane.takes_turns
        return next((t for t in self.waiting if any_device or t.arm.device == self.turn), None)


class BegunBlocks(dict[int, Sequence[Trial]]):
    """By index: the trials of begun blocks that no lane of a group has yet."""

    def __init__(self) -> None:
        super().__init__()
        self._indices: list[int] = []  # a heap; those of blocks that are gone leave it at its top

    def put(self, index: int, trials: Sequence[Trial]) -> None:
        """Replace a block's trials; a block without any is gone."""
        if self.pop(index, None) is None and trials:
            heappush(self._indices, index)
        if trials:
            self[index] = trials

    @property
    def oldest(self) -> int | None:
        """The first block; None if there is none."""
        while self._indices and self._indices[0] not in self:
            heappop(self._indices)
        return self._indices[0] if self._indices else None
