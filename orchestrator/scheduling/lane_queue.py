"""One lane at work: the trials that wait for it, and how many rounds are handed out to it."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from orchestrator.core.criteria import MeasureMode
from orchestrator.core.trial import Trial, config_text
from orchestrator.planning.lanes import Lane, LaneGroup
from workloads.protocol import Device


@dataclass(frozen=True, slots=True)
class Assignment:
    """A round handed out to a lane, with the attempt number.

    Its trials are of one block, one repeat and one way to measure, and take turns there. The
    baseline's comes first.
    """

    trials: tuple[Trial, ...]
    lane: Lane
    attempt: int = 1

    def __str__(self) -> str:
        first = self.trials[0]
        arms = f"{len(self.trials)} arms in turns" if len(self.trials) > 1 else str(first.arm)
        return f"block {self.block}  {arms}  {config_text(first.config)}"

    @property
    def key(self) -> str:
        """The key of its first trial: no two rounds that are handed out share one."""
        return self.trials[0].key

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its trials, in their order."""
        return tuple(trial.key for trial in self.trials)

    @property
    def block(self) -> int:
        """The index of the block."""
        return self.trials[0].block

    @property
    def measure(self) -> MeasureMode:
        """Whether its arms train to the end, or are timed only."""
        return self.trials[0].arm.measure

    @property
    def device(self) -> Device:
        """The device of its node that it occupies: a GPU if any of its arms runs on one."""
        return "gpu" if any(trial.arm.device == "gpu" for trial in self.trials) else "cpu"


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
    """The trials that wait for a lane in their order, and how many rounds are handed out to it.

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
        """Return how many more rounds can run at once; negative if one waits beyond the slots."""
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

    def pick_round(self) -> list[Trial]:
        """Take the next round: that of the first trial for the device whose turn it is.

        The turn passes to the other device only when nothing is handed out: a round on the CPU has
        the whole node, and must not run beside rounds on GPUs.
        """
        first = self._first_for_device_at_work()
        if first is None and self.waiting and not self.out:
            self.device_at_work = "cpu" if self.device_at_work == "gpu" else "gpu"
            first = self._first_for_device_at_work()
        if first is None:
            return []
        members = [trial for trial in self.waiting if self._are_in_one_round(first, trial)]
        for trial in members:
            self.waiting.remove(trial)
        return members

    def _are_in_one_round(self, first: Trial, other: Trial) -> bool:
        """Return whether two trials are of one round, and may run in turns on this lane.

        Where devices take turns, CPU and GPU trials may not: each device has rounds of its own.
        """
        if self.lane.takes_turns and first.arm.device != other.arm.device:
            return False
        return (first.block, first.repeat, first.arm.measure) == (
            other.block,
            other.repeat,
            other.arm.measure,
        )

    def _first_for_device_at_work(self) -> Trial | None:
        """Return the first trial that waits for the device whose turn it is.

        On a node without turns it is the first one that waits.
        """
        for trial in self.waiting:
            if not self.lane.takes_turns or trial.arm.device == self.device_at_work:
                return trial
        return None
