"""All lanes of a sweep and the trials that no lane has yet, indexed for quick decisions.

A decision costs the same with one node as with a thousand: lanes that can get nothing are not
looked at again until something has changed for them, and each lane group finds its oldest block in
a heap.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.trial import Trial
from orchestrator.planning.lanes import LaneGroup, count_lanes
from orchestrator.scheduling.lane_queue import LaneQueue
from orchestrator.scheduling.ledger import Ledger


@dataclass(slots=True)
class LaneIndex:
    """The queues of the lanes by node id, and by lane group the trials that no queue has yet."""

    ledger: Ledger
    queues: dict[str, LaneQueue] = field(default_factory=dict)
    unassigned: dict[LaneGroup, "UnassignedTrials"] = field(default_factory=dict)
    _group_of: dict[Arm, LaneGroup] = field(default_factory=dict)
    _candidates: list[tuple[int, int, str]] = field(default_factory=list)
    """Lanes that may get a round: a heap of negative free slots, position and the node's id."""
    _every_lane_may_get_one: bool = True
    """Set when a block came or lanes changed: lanes that got nothing before may now get a round."""

    @property
    def groups(self) -> tuple[LaneGroup, ...]:
        """The lane groups, those without a lane at present among them."""
        return tuple(self.unassigned)

    @property
    def is_empty(self) -> bool:
        """Return whether no trial waits, neither for a certain lane nor for any."""
        if any(self.unassigned.values()):
            return False
        return not any(queue.waiting for queue in self.queues.values())

    def replace_lanes(self, groups: Sequence[LaneGroup], handed_out: Collection[str]) -> None:
        """Replace the lanes: nodes left or joined, or arms were stopped.

        A lane that stays keeps its queue. Trials that waited for a removed lane go to the other
        lanes of their arms, or wait until there is one. Trials that are `handed_out` (by key) stay
        so. A group all of whose arms are stopped has no lane.
        """
        before, self.queues = self.queues, {}
        begun = {trial.block for queue in before.values() for trial in queue.waiting}
        begun.update(*self.unassigned.values())
        self._group_of = {arm: group for group in groups for arm in group.arms}
        self.unassigned = {group: UnassignedTrials() for group in groups}
        running = set(self.ledger.running_arms)
        for group in groups:
            if running.isdisjoint(group.arms):
                continue
            for lane in group.lanes:
                new = LaneQueue(lane, len(self.queues))
                queue = self.queues.setdefault(lane.node.id, new)
                queue.groups = (*queue.groups, group)
        assigned = set(handed_out)
        for node_id, queue in self.queues.items():
            if node_id in before:
                self._carry_over_trials(before[node_id], queue)
                assigned.update(trial.key for trial in queue.waiting)
        for index in begun:
            self.offer(index, assigned)
        self.recheck_every_lane()

    def _carry_over_trials(self, old: LaneQueue, new: LaneQueue) -> None:
        """Let trials of a node's old queue wait in its new one, if it still runs their arms."""
        arms = {arm for group in new.groups for arm in group.arms}
        stopped = self.ledger.stopped_arms
        new.waiting.extend(
            trial for trial in old.waiting if trial.arm not in stopped and trial.arm in arms
        )
        new.out, new.device_at_work = old.out, old.device_at_work

    def offer(self, index: int, assigned: Collection[str] = ()) -> None:
        """Let the missing trials of a block wait for a lane, except keys that are `assigned`."""
        by_group: dict[LaneGroup, list[Trial]] = {group: [] for group in self.unassigned}
        for trial in self.ledger.missing_trials(index):
            if trial.key not in assigned:
                by_group[self._group_of[trial.arm]].append(trial)
        for group, trials in by_group.items():
            self.unassigned[group].replace_trials(index, trials)

    def withdraw(self, index: int) -> None:
        """Let no trial of a block wait any more."""
        for unassigned in self.unassigned.values():
            unassigned.replace_trials(index, ())
        for queue in self.queues.values():
            for trial in [trial for trial in queue.waiting if trial.block == index]:
                queue.waiting.remove(trial)
        self.recheck_every_lane()

    def hand_over(self, index: int, queue: LaneQueue) -> None:
        """Put all of a block that a lane can run into its queue, in the block's order."""
        taken = {
            trial.key for group in queue.groups for trial in self.unassigned[group].pop(index, ())
        }
        queue.waiting.extend(t for t in self.ledger.trials_of(index) if t.key in taken)

    def give_back(self, trials: Sequence[Trial], queue: LaneQueue | None) -> None:
        """Let the trials of a round that was handed out wait again, before all others.

        They wait for the lane that they had (`queue`), or for any lane of their arms if that lane
        is gone.
        """
        for trial in reversed(trials):
            if trial.arm in self.ledger.stopped_arms:
                continue
            group = self._group_of[trial.arm]
            if queue is not None and group in queue.groups:
                queue.waiting.appendleft(trial)
            else:
                unassigned = self.unassigned[group]
                unassigned.replace_trials(trial.block, (trial, *unassigned.get(trial.block, ())))
                self.recheck_every_lane()

    def with_room(self) -> Iterator[LaneQueue]:
        """Yield the lanes that may get a round, the one with the most free slots first.

        Of several with as many the first one by position comes first. A lane whose slots are all
        taken may get one round more, which waits.
        """
        if self._every_lane_may_get_one:
            self._every_lane_may_get_one, self._candidates = False, []
            for queue in self.queues.values():
                self.recheck(queue)
        while self._candidates:
            negative_free, _, node_id = heappop(self._candidates)
            queue = self.queues[node_id]
            if queue.free_slots == -negative_free:  # else a newer entry has its present number
                yield queue

    def recheck(self, queue: LaneQueue) -> None:
        """Look at a lane again: something has changed for it."""
        if queue.free_slots >= 0:
            heappush(self._candidates, (-queue.free_slots, queue.position, queue.lane.node.id))

    def recheck_every_lane(self) -> None:
        """Look at every lane again: there may be a block for it."""
        self._every_lane_may_get_one = True

    def oldest_block_for(self, queue: LaneQueue) -> int | None:
        """Return the oldest block that has trials for a lane which no lane has yet."""
        oldest = (self.unassigned[group].oldest for group in queue.groups)
        return min((index for index in oldest if index is not None), default=None)

    def has_blocks_for(self, queue: LaneQueue, count: int) -> bool:
        """Return whether at least this number of blocks has unassigned trials for a lane."""
        first = (itertools.islice(self.unassigned[group], count) for group in queue.groups)
        return len(set[int]().union(*first)) >= count

    def count_lanes_like(self, queue: LaneQueue) -> int:
        """Return how many lanes can run what a lane can, that lane among them."""
        return count_lanes(queue.groups)

    def count_without_lane(self) -> Counter[HardwareUse]:
        """Count the trials that wait for hardware which has no lane at present."""
        return Counter(
            trial.arm.hardware
            for group, unassigned in self.unassigned.items()
            if not group.lanes
            for trial in itertools.chain.from_iterable(unassigned.values())
        )


class UnassignedTrials(dict[int, Sequence[Trial]]):
    """By block index: the trials of begun blocks for a lane group that no lane has yet."""

    def __init__(self) -> None:
        super().__init__()
        self._indices: list[int] = []  # a heap; indices that are gone leave it at its top

    def replace_trials(self, index: int, trials: Sequence[Trial]) -> None:
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
