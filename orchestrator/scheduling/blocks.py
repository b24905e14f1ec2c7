"""Blocks of trials, handed out to lanes: what runs next, and where.

Without Ray, Optuna and a clock, so that every order of events can be tested. Each lane has one
trial more than it can run, and no more, as Tune starts pending trials in arbitrary order.
"""

import itertools
import random
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.names import names_arm
from orchestrator.core.trial import (
    Block,
    FinishedTrial,
    Outcome,
    SweepIdentity,
    Trial,
    derive_seed,
    make_trial,
)
from orchestrator.planning.lanes import LaneGroup, lanes_of
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.lane_queue import Assignment, LaneQueue, at_work
from orchestrator.scheduling.sampler import Suggestions


class Blocks:
    """The blocks of one sweep, from the suggestion to the report to the sampler.

    `groups` are the lanes, from `make_lanes`. `open_limit` is how many suggested blocks may be
    without a result; None for no limit. `baseline` is the spec's choice, which the others of an
    interleaved round are timed against.
    """

    def __init__(
        self,
        identity: SweepIdentity,
        plan: Plan,
        groups: Sequence[LaneGroup],
        suggestions: Suggestions,
        open_limit: int | None = None,
        baseline: str | None = None,
    ) -> None:
        self.identity = identity
        self.plan = plan
        self._baseline = baseline
        self.suggestions = suggestions
        self._trials: dict[int, tuple[Trial, ...]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._attempts = Counter[str]()
        self._groups: tuple[LaneGroup, ...] = ()
        self._queues: list[LaneQueue] = []
        self._out: dict[str, Assignment] = {}
        self._units: dict[int, dict[LaneGroup, deque[Trial]]] = {}
        self.ending: set[int] = set()
        """Blocks that the pruner ends, with trials that are still out."""
        self._pruned: set[int] = set()
        self.move(groups, open_limit)

    def move(self, groups: Sequence[LaneGroup], open_limit: int | None) -> None:
        """Replace the lanes after nodes left or joined; `open_limit` is the one for these lanes.

        Trials that are out on a removed lane stay out; those that waited there go to the other
        lanes of their hardware, or wait until there is one.
        """
        before = {queue.lane.node.id: queue for queue in self._queues}
        self.suggestions.open_limit = open_limit
        self._groups = tuple(groups)
        self._queues = []
        hardware = {arm.hardware for arm in self.plan.arms if arm not in self.stopped_arms}
        groups = [group for group in groups if not hardware.isdisjoint(group.hardware)]
        for lane in lanes_of(groups):
            queue = LaneQueue(tuple(group for group in groups if lane in group.lanes), lane)
            if (old := before.get(lane.node.id)) is not None:
                fitting = (
                    trial
                    for trial in old.waiting
                    if trial.arm not in self.stopped_arms and self._group_of(trial) in queue.groups
                )
                queue.waiting, queue.out, queue.turn = deque(fitting), old.out, old.turn
            self._queues.append(queue)
        held = {trial.key for queue in self._queues for trial in queue.waiting}
        for index, trials in self._trials.items():
            self._put(index, (t for t in trials if t.key not in held | self._out.keys()))

    def restore(self, history: Iterable[Block | FinishedTrial]) -> None:
        """Take over blocks and trials of earlier starts, in their order; hand out the rest."""
        for event in history:
            if isinstance(event, FinishedTrial):
                self._count(event)
            elif self.plan.has_block(event.index):
                self.suggestions.replay(event)
                self._admit(event)
        for index, trials in self._trials.items():
            self._put(index, trials)

    def next(self) -> tuple[Assignment, Block | None] | None:
        """Return the next trial to start, with its block if new; None if no lane is free."""
        for queue in sorted(self._queues, key=lambda queue: queue.spare, reverse=True):
            if queue.spare < 0 or (queue.spare == 0 and self._are_last_ones(queue)):
                continue
            new = self._supply(queue)
            trial = queue.pick()
            if trial is not None:
                queue.out += 1
                return self._assign(queue, trial), new
        return None

    def finish(self, assignment: Assignment, *outcomes: Outcome) -> None:
        """Take the outcomes of an assignment, and report to the sampler as soon as possible."""
        self._take_back(assignment)
        ended = list(map(FinishedTrial, assignment.trials, outcomes))
        self._outcomes |= {finished.key: finished.outcome for finished in ended}
        for finished in ended:
            self._count(finished)
        self._settle(assignment.trial.block)

    def take_epoch(self, trial: Trial, step: int, metrics: Mapping[str, float]) -> bool:
        """Take an epoch of a trial that is out; return whether it is to end, with its block.

        All trials of the block that are out then end after an epoch; others run only if none did.
        """
        index = trial.block
        if self.suggestions.take_epoch(index, trial.arm, step, metrics, trial.key):
            self.ending.add(index)
            self._units.pop(index, None)
            for queue in self._queues:
                queue.waiting = deque(one for one in queue.waiting if one.block != index)
        return index in self.ending

    def give_back(self, assignment: Assignment, *, charged: bool = True) -> None:
        """Take back a trial whose attempt was lost, or (not charged) never began.

        It is the next one on its lane, or of its hardware if that lane is gone. In a block that the
        pruner ends it waits for the block's end.
        """
        if not charged:
            self._attempts.subtract(trial.key for trial in assignment.trials)
        queue = self._take_back(assignment)
        if assignment.trial.block in self.ending:
            self._settle(assignment.trial.block)
            return
        for trial in reversed(assignment.trials):
            if trial.arm in self.stopped_arms:
                continue
            if queue is not None and self._group_of(trial) in queue.groups:
                queue.waiting.appendleft(trial)
            else:
                units = self._units.setdefault(trial.block, {})
                units.setdefault(self._group_of(trial), deque()).appendleft(trial)
        self._units = dict(sorted(self._units.items()))  # the oldest block comes first

    @property
    def done(self) -> bool:
        """Return whether every trial of the sweep has an outcome."""
        return (
            not self._out
            and not any(queue.waiting for queue in self._queues)
            and not self._units
            and not self.suggestions.to_come
        )

    @property
    def stopped_arms(self) -> Container[Arm]:
        """The arms whose remaining trials are not run: they failed too often in the same way."""
        return self.suggestions.failures.stopped

    @property
    def out(self) -> int:
        """How many trials are handed out and not yet back."""
        return len(self._out)

    @property
    def running(self) -> list[Assignment]:
        """The assignments that can be running."""
        return at_work(one for key, one in self._out.items() if key == one.trial.key)

    def has_lane(self, node_id: str) -> bool:
        """Return whether trials may be handed out to a node."""
        return any(queue.lane.node.id == node_id for queue in self._queues)

    @property
    def stranded(self) -> dict[HardwareUse, int]:
        """Return how many trials wait for hardware without a lane; all of them without any lane."""
        waiting: Counter[HardwareUse] = Counter()
        for units in self._units.values():
            for group, trials in units.items():
                if not group.lanes:
                    waiting.update(trial.arm.hardware for trial in trials)
        if not self._queues and self.suggestions.to_come:
            for arm in (arm for arm in self.plan.arms if arm not in self.stopped_arms):
                waiting[arm.hardware] += self.suggestions.to_come * self.plan.repeats
        return dict(waiting)

    def _settle(self, index: int) -> None:
        """Hand out the rest of an ending block when no trial of it is out, unless it is pruned."""
        if index in self.ending and all(out.trial.block != index for out in self._out.values()):
            self.ending.remove(index)
            self._put(index, self._trials[index])

    def _assign(self, queue: LaneQueue, trial: Trial) -> Assignment:
        """Hand out a trial, with all that is timed in turns with it: the baseline's arm first."""
        keys = {member.key for member in (trial, *queue.take_round(trial))}
        members = [member for member in self._trials[trial.block] if member.key in keys]
        members.sort(key=lambda member: not self._is_baseline(member.arm))
        attempt = 1 + max(self._attempts[member.key] for member in members)
        self._attempts |= Counter({member.key: attempt for member in members})
        assignment = Assignment(members[0], queue.lane, attempt, tuple(members[1:]))
        for member in members:
            self._out[member.key] = assignment
        return assignment

    def _is_baseline(self, arm: Arm) -> bool:
        if self._baseline is None:
            return arm == self.plan.arms[0]
        return names_arm(self._baseline, arm)

    def _take_back(self, assignment: Assignment) -> LaneQueue | None:
        """Return the queue of its lane, if that is still there, with room for another one."""
        for trial in assignment.trials:
            del self._out[trial.key]
        node = assignment.lane.node.id
        queue = next((queue for queue in self._queues if queue.lane.node.id == node), None)
        if queue is not None:
            queue.out -= 1
        return queue

    def _group_of(self, trial: Trial) -> LaneGroup:
        return next(group for group in self._groups if trial.arm.hardware in group.hardware)

    def _are_last_ones(self, queue: LaneQueue) -> bool:
        """Return whether fewer blocks remain for the lane than there are lanes to take them."""
        # Then a lane at work gets none: another lane may be idle before it.
        if queue.waiting:
            return False
        rivals = len({lane.node.id for group in queue.groups for lane in group.lanes})
        begun = itertools.islice(self._begun_for(queue), rivals)
        return self.suggestions.to_come + len(list(begun)) < rivals

    def _begun_for(self, queue: LaneQueue) -> Iterator[int]:
        """Yield the begun blocks with trials for a lane, the oldest first."""
        groups = set(queue.groups)
        return (index for index, units in self._units.items() if not groups.isdisjoint(units))

    def _supply(self, queue: LaneQueue) -> Block | None:
        """See to it that a lane has a next trial; return the block that is new for that."""
        # A lane takes the oldest block that its hardware has not run, or else a new one.
        while queue.is_short:
            if (index := next(self._begun_for(queue), None)) is None:
                block = self.suggestions.suggest()
                if block is not None:
                    self._admit(block)
                    self._take(queue, block.index)
                return block
            self._take(queue, index)
        return None

    def _take(self, queue: LaneQueue, index: int) -> None:
        """Put all of a block that a lane can run into its queue, in the block's order."""
        units = self._units[index]
        taken = {trial.key for group in queue.groups for trial in units.pop(group, ())}
        if not units:
            del self._units[index]
        queue.waiting.extend(trial for trial in self._trials[index] if trial.key in taken)

    def _admit(self, block: Block) -> None:
        self._trials[block.index] = self._make_trials(block)
        self._put(block.index, self._trials[block.index])
        self._report(block.index)

    def _count(self, finished: FinishedTrial) -> None:
        """Take an outcome; report its block to the sampler as soon as possible."""
        self._outcomes[finished.key] = finished.outcome
        if finished.status == "pruned":
            self._pruned.add(finished.block)
        is_stopped = self.suggestions.observe(finished)
        self._report(finished.block)
        if is_stopped:
            self.move(self._groups, self.suggestions.open_limit)
            for index in self._trials:  # they waited for the arm
                self._report(index)

    def _report(self, index: int) -> None:
        if not self.suggestions.is_open(index):
            return
        outcomes: dict[Arm, list[Outcome]] = {}
        for trial in self._trials[index]:
            if trial.key in self._outcomes:
                outcomes.setdefault(trial.arm, []).append(self._outcomes[trial.key])
        self.suggestions.report(index, outcomes)

    def _put(self, index: int, trials: Iterable[Trial]) -> None:
        """Keep a block's trials without an outcome, unless it is pruned, by the lanes for them."""
        units: dict[LaneGroup, deque[Trial]] = {}
        for trial in trials if index not in self._pruned | self.ending else ():
            if trial.key not in self._outcomes and trial.arm not in self.stopped_arms:
                units.setdefault(self._group_of(trial), deque()).append(trial)
        self._units.pop(index, None)
        if units:
            self._units[index] = units

    def _make_trials(self, block: Block) -> tuple[Trial, ...]:
        """Return the block's trials in the order to run them."""
        # A repeat is a complete round of the arms, each round in a random order of its own that
        # depends on the seed alone.
        trials: list[Trial] = []
        for repeat in range(self.plan.repeats):
            arms = sorted(self.plan.arms)
            seed = derive_seed(self.identity.seed, "order", block.index, repeat)
            random.Random(seed).shuffle(arms)
            trials += [make_trial(self.identity, block, arm, repeat) for arm in arms]
        return tuple(trials)
