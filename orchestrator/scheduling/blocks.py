"""Blocks of trials, handed out to lanes: what runs next, and where.

Without Ray, Optuna and a clock, so that every order of events can be tested. Each lane has one
trial more than it can run, and no more, as Tune starts pending trials in arbitrary order.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

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
from orchestrator.planning.lanes import LaneGroup, count_lanes
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.lane_queue import Assignment, BegunBlocks, LaneQueue, at_work

if TYPE_CHECKING:
    from orchestrator.scheduling.sampler import Suggestions


@dataclass(slots=True)
class Blocks:
    """The blocks of one sweep, from the suggestion to the report to the sampler.

    `groups` are the lanes, from `make_lanes`. `open_limit` is how many suggested blocks may be
    without a result; None for no limit. `baseline` is the spec's choice, which the others of an
    interleaved round are timed against. `ending` are blocks that the pruner ends, with trials that
    are still out.
    """

    identity: SweepIdentity
    plan: Plan
    groups: InitVar[Sequence[LaneGroup]]
    suggestions: Suggestions
    open_limit: InitVar[int | None] = None
    baseline: str | None = None
    ending: set[int] = field(default_factory=set)
    _pruned: set[int] = field(default_factory=set)
    _trials: dict[int, tuple[Trial, ...]] = field(default_factory=dict)
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _attempts: Counter[str] = field(default_factory=Counter)
    _groups: dict[HardwareUse, LaneGroup] = field(default_factory=dict)
    _queues: dict[str, LaneQueue] = field(default_factory=dict)  # by the node's id
    _changed: list[tuple[int, int, str]] = field(default_factory=list)
    """Lanes that may get a trial: a heap of negative room, position and the node's id."""
    _all_may: bool = True
    """Whether lanes that got none before may get one too: there may be a block for them."""
    _out: dict[str, Assignment] = field(default_factory=dict)
    _begun: dict[LaneGroup, BegunBlocks] = field(default_factory=dict)
    _new: list[Block] = field(default_factory=list)  # since the last trial was handed out

    def __post_init__(self, groups: Sequence[LaneGroup], open_limit: int | None) -> None:
        self.move(groups, open_limit)

    def move(self, groups: Sequence[LaneGroup], open_limit: int | None) -> None:
        """Replace the lanes after nodes left or joined; `open_limit` is the one for these lanes.

        Trials that are out on a removed lane stay out; those that waited there go to the other
        lanes of their hardware, or wait until there is one.
        """
        self.suggestions.open_limit = open_limit
        self._groups = {use: group for group in groups for use in group.hardware}
        before, self._queues = self._queues, {}
        hardware = {arm.hardware for arm in self.plan.arms if arm not in self.stopped_arms}
        for group in (one for one in groups if not hardware.isdisjoint(one.hardware)):
            for lane in group.lanes:
                new = LaneQueue(lane, len(self._queues))
                queue = self._queues.setdefault(lane.node.id, new)
                queue.groups = (*queue.groups, group)
        held = set(self._out)
        for id_, queue in self._queues.items():
            if (old := before.get(id_)) is not None:
                running = (trial for trial in old.waiting if trial.arm not in self.stopped_arms)
                uses = {use for group in queue.groups for use in group.hardware}
                queue.waiting.extend(trial for trial in running if trial.arm.hardware in uses)
                queue.out, queue.turn = old.out, old.turn
                held.update(trial.key for trial in queue.waiting)
        unfinished = {trial.block for queue in before.values() for trial in queue.waiting}
        unfinished.update(*self._begun.values())
        self._begun = {group: BegunBlocks() for group in groups}
        for index in unfinished:
            self._put(index, (t for t in self._trials[index] if t.key not in held))
        self._all_may = True

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

    def next(self) -> tuple[Assignment, list[Block]] | None:
        """Return the next trial to start, and the blocks that are new; None if no lane is free."""
        if self._all_may:
            self._all_may, self._changed = False, []
            for queue in self._queues.values():
                self._look_at(queue)
        while self._changed:
            rank, _, id_ = heappop(self._changed)
            queue = self._queues[id_]
            if rank != -queue.spare or (queue.spare == 0 and self._are_last_ones(queue)):
                continue
            self._supply(queue)
            trial = queue.pick()
            if trial is not None:
                queue.out += 1
                self._look_at(queue)
                new, self._new = self._new, []
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
            self._put(index, ())
            for queue in self._queues.values():
                queue.waiting = deque(one for one in queue.waiting if one.block != index)
            self._all_may = True
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
            group = self._groups[trial.arm.hardware]
            if queue is not None and group in queue.groups:
                queue.waiting.appendleft(trial)
            else:
                begun = self._begun[group]
                begun.put(trial.block, (trial, *begun.get(trial.block, ())))
                self._all_may = True

    @property
    def done(self) -> bool:
        """Return whether every trial of the sweep has an outcome."""
        if self._out or self.suggestions.to_come or any(self._begun.values()):
            return False
        return not any(queue.waiting for queue in self._queues.values())

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
        return node_id in self._queues

    @property
    def stranded(self) -> dict[HardwareUse, int]:
        """Return how many trials wait for hardware without a lane; all of them without any lane."""
        lost = [begun for group, begun in self._begun.items() if not group.lanes]
        trials = (trial for begun in lost for own in begun.values() for trial in own)
        waiting = Counter(trial.arm.hardware for trial in trials)
        if not self._queues and self.suggestions.to_come:
            for arm in (arm for arm in self.plan.arms if arm not in self.stopped_arms):
                waiting[arm.hardware] += self.suggestions.to_come * self.plan.repeats
        return dict(waiting)

    def _settle(self, index: int) -> None:
        """Hand out the rest of an ending block when no trial of it is out, unless it is pruned."""
        if index in self.ending and all(out.trial.block != index for out in self._out.values()):
            self.ending.remove(index)
            self._put(index, self._trials[index])
            self._all_may = True

    def _assign(self, queue: LaneQueue, trial: Trial) -> Assignment:
        """Hand out a trial, with all that is timed in turns with it: the baseline's arm first."""
        members = [trial, *queue.take_round(trial)]
        baseline = self.baseline or str(self.plan.arms[0])
        members.sort(key=lambda member: not names_arm(baseline, member.arm))
        attempt = 1 + max(self._attempts[member.key] for member in members)
        assignment = Assignment(members[0], queue.lane, attempt, tuple(members[1:]))
        for member in members:
            self._attempts[member.key] = attempt
            self._out[member.key] = assignment
        return assignment

    def _take_back(self, assignment: Assignment) -> LaneQueue | None:
        """Return the queue of its lane, if that is still there, with room for another one."""
        for trial in assignment.trials:
            del self._out[trial.key]
        queue = self._queues.get(assignment.lane.node.id)
        if queue is not None:
            queue.out -= 1
            self._look_at(queue)
        return queue

    def _look_at(self, queue: LaneQueue) -> None:
        if queue.spare >= 0:
            heappush(self._changed, (-queue.spare, queue.position, queue.lane.node.id))

    def _are_last_ones(self, queue: LaneQueue) -> bool:
        """Return whether fewer blocks remain for the lane than there are lanes to take them."""
        # Then a lane at work gets none: another lane may be idle before it.
        lacking = count_lanes(queue.groups) - self.suggestions.to_come
        if lacking <= 0 or queue.waiting:
            return False
        begun = (itertools.islice(self._begun[group], lacking) for group in queue.groups)
        return len(set[int]().union(*begun)) < lacking

    def _supply(self, queue: LaneQueue) -> None:
        # A lane takes the oldest block that its hardware has not run, or else a new one.
        while queue.is_short:
            if (index := self._oldest_for(queue)) is not None:
                self._take(queue, index)
            else:
                if (block := self.suggestions.suggest()) is not None:
                    self._new.append(block)
                    self._admit(block)
                    self._take(queue, block.index)
                return

    def _oldest_for(self, queue: LaneQueue) -> int | None:
        oldest = (self._begun[group].oldest for group in queue.groups)
        return min((index for index in oldest if index is not None), default=None)

    def _take(self, queue: LaneQueue, index: int) -> None:
        """Put all of a block that a lane can run into its queue, in the block's order."""
        begun = [self._begun[group].pop(index, ()) for group in queue.groups]
        taken = {trial.key for trials in begun for trial in trials}
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
            self.move([*self._begun], self.suggestions.open_limit)
            for index in self._trials:  # they waited for the arm
                self._report(index)

    def _report(self, index: int) -> None:
        if index not in self.suggestions.open_blocks:
            return
        outcomes = defaultdict[Arm, list[Outcome]](list)
        for trial in self._trials[index]:
            if trial.key in self._outcomes:
                outcomes[trial.arm].append(self._outcomes[trial.key])
        self.suggestions.report(index, outcomes)
        has_room = self.suggestions.open_limit is not None
        self._all_may |= has_room and index not in self.suggestions.open_blocks

    def _put(self, index: int, trials: Iterable[Trial]) -> None:
        """Keep a block's trials without an outcome, unless it is pruned, by the lanes for them."""
        units = defaultdict[LaneGroup, list[Trial]](list)
        for trial in () if index in self._pruned or index in self.ending else trials:
            if trial.key not in self._outcomes and trial.arm not in self.stopped_arms:
                units[self._groups[trial.arm.hardware]].append(trial)
        for group, begun in self._begun.items():
            begun.put(index, units[group])

    def _make_trials(self, block: Block) -> tuple[Trial, ...]:
        # A repeat is a complete round of the arms, each round in a random order of its own that
        # depends on the seed alone.
        trials: list[Trial] = []
        in_order = sorted(self.plan.arms)
        for repeat in range(self.plan.repeats):
            arms = list(in_order)
            seed = derive_seed(self.identity.seed, "order", block.index, repeat)
            random.Random(seed).shuffle(arms)
            trials += [make_trial(self.identity, block, arm, repeat) for arm in arms]
        return tuple(trials)
