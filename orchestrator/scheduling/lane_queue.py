"""One lane at work: the trials that wait for it, and how many are handed out to it."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

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
    """Return the assignments that can be running: on each lane the oldest, up to its slots."""
    running, count_on_node = list[Assignment](), Counter[str]()
    for assignment in assignments:
        node_id = assignment.lane.node.id
        count_on_node[node_id] += 1
        if count_on_node[node_id] <= assignment.lane.room(assignment.device):
            running.append(assignment)
    return running


@dataclass(slots=True)
class LaneQueue:
    """The trials that wait for a lane in their order, and the number of those handed out to it.

    `groups` are the lane groups that the lane is part of. Where the CPU arms and the GPU arms of a
    node take turns, `device_at_work` is the device whose turn it is.
    """

    lane: Lane
    position: int
    groups: tuple[LaneGroup, ...] = ()
    waiting: deque[Trial] = field(default_factory=deque)
    out: int = 0
    device_at_work: Device = "gpu"

    @property
    def free_slots(self) -> int:
        """Return how many more trials can run at once; negative if one waits beyond the slots."""
        device = self.device_at_work if self.lane.takes_turns else "gpu"
        return self.lane.room(device) - self.out

    @property
    def needs_block(self) -> bool:
        """Return whether the lane should get another block.

        Usually it should when nothing waits. Where devices take turns, a turn of the GPUs gathers
        one block for each slot, so that all GPUs are at work and the turns are few.
        """
        if not self.lane.takes_turns:
            return not self.waiting
        if not self.waiting and not self.out:
            self.device_at_work = "gpu"
        gathered = len({trial.block for trial in self.waiting})
        is_gpu_turn = self.device_at_work == "gpu"
        is_out_of_gpu_trials = self._first_for_device_at_work() is None
        return is_gpu_turn and is_out_of_gpu_trials and gathered < self.lane.slots

    def pick(self) -> Trial | None:
        """Take the next trial: the first one for the device whose turn it is.

        The turn passes to the other device only when nothing is handed out: a CPU trial has the
        whole node, and must not run beside GPU trials.
        """
        trial = self._first_for_device_at_work()
        if trial is None and self.waiting and not self.out:
            self.device_at_work = "cpu" if self.device_at_work == "gpu" else "gpu"
            trial = self._first_for_device_at_work()
        if trial is not None:
            self.waiting.remove(trial)
        return trial

    def take_rest_of_round(self, trial: Trial) -> list[Trial]:
        """Take the trials that are timed in turns with a picked one: the rest of its round here."""
        same_round = [
            waiting for waiting in self.waiting if self._are_timed_together(trial, waiting)
        ]
        for waiting in same_round:
            self.waiting.remove(waiting)
        return same_round

    def _are_timed_together(self, trial: Trial, waiting: Trial) -> bool:
        """Return whether two trials are of one interleaved round, and may run at the same time.

        Where devices take turns, CPU and GPU trials never do: each device has a round of its own.
        """
        if trial.arm.measure != "timing" or waiting.arm.measure != "timing":
            return False
        if self.lane.takes_turns and trial.arm.device != waiting.arm.device:
            return False
        return (trial.block, trial.repeat) == (waiting.block, waiting.repeat)

    def _first_for_device_at_work(self) -> Trial | None:
        """Return the first trial that waits for the device whose turn it is.

        On a node without turns it is the first one that waits.
        """
        for trial in self.waiting:
            if not self.lane.takes_turns or trial.arm.device == self.device_at_work:
                return trial
        return None
