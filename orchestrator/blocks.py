"""Blocks of trials, handed out to lanes: what runs next, and when a block is known.

Pure Python: it knows no Ray, no Optuna and no clock, so that every order of events can be
tested. Each lane is kept supplied with one trial more than it can run, and no more: Tune starts
pending trials in arbitrary order, and a node must never wait for another node's work.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.lane_queue import LaneQueue
from orchestrator.objectives import arms_read, block_value
from orchestrator.placement import Lane, LaneGroup, lanes_of
from orchestrator.plan import Plan
from orchestrator.spec import Objective
from orchestrator.trial import (
    Arm,
    Block,
    Config,
    FinishedTrial,
    Outcome,
    SweepIdentity,
    Trial,
    derive_seed,
    make_trial,
)
from workloads.protocol import Device


class Source(Protocol):
    """Where configs come from and what is told of their blocks (see `Suggester`)."""

    def suggest(self, index: int) -> Config | None:
        """The config of a new block, or None when there is none left."""

    def replay(self, index: int, config: Config) -> None:
        """A block that an earlier start suggested."""

    def tell(self, index: int, values: Sequence[float] | None) -> None:
        """A block's objective values, or None for a failure."""


@dataclass(frozen=True, slots=True)
class Issue:
    """A trial handed out: on which lane and device, and the how-manieth attempt it is."""

    trial: Trial
    lane: Lane
    device: Device
    attempt: int = 1


class Blocks:
    """The blocks of one sweep, from suggestion to telling the sampler.

    Args:
        identity: what the trials' keys and seeds are derived from.
        plan: the arms that can run, the number of blocks and of repeats.
        groups: the lanes, from `placement.make_lanes`.
        objectives: by metric; empty where the sampler does not learn.
        source: gives configs and is told of blocks.
        open_limit: how many blocks may be suggested and not yet told; None for no limit.
    """

    def __init__(
        self,
        identity: SweepIdentity,
        plan: Plan,
        groups: Sequence[LaneGroup],
        *,
        objectives: Mapping[str, Objective],
        source: Source,
        open_limit: int | None,
    ) -> None:
        self._identity = identity
        self._plan = plan
        self._objectives = objectives
        self._source = source
        self._devices = {planned.arm: planned.hardware.device for planned in plan.possible}
        self._groups: tuple[LaneGroup, ...] = ()
        self._queues: list[LaneQueue] = []
        self._out: dict[str, Issue] = {}
        self._blocks: dict[int, tuple[Trial, ...]] = {}
        self._units: dict[int, dict[LaneGroup, deque[Trial]]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._attempts: dict[str, int] = {}
        self._untold: set[int] = set()
        self._used_up = False
        self._unseen = 0
        self.move(groups, open_limit)

    def move(self, groups: Sequence[LaneGroup], open_limit: int | None) -> None:
        """Go on with other lanes: nodes have left, or joined; `open_limit` is the one for these.

        What is out on a lane that is gone stays out until it is finished or given back; what
        waited there goes to the other lanes of its hardware, or waits until there is one.
        """
        before = {queue.lane.node.id: queue for queue in self._queues}
        self._open_limit = open_limit
        self._groups = tuple(groups)
        self._queues = []
        for lane in lanes_of(groups):
            queue = LaneQueue(tuple(group for group in groups if lane in group.lanes), lane)
            if (old := before.get(lane.node.id)) is not None:
                fitting = (each for each in old.waiting if self._group_of(each) in queue.groups)
                queue.waiting, queue.out, queue.turn = deque(fitting), old.out, old.turn
            self._queues.append(queue)
        held = {trial.key for queue in self._queues for trial in queue.waiting}
        for index, trials in self._blocks.items():
            self._put(index, (t for t in trials if t.key not in held | self._out.keys()))

    def restore(self, past: Iterable[Block | FinishedTrial]) -> None:
        """Take over what earlier starts suggested and finished; only the rest is handed out.

        Args:
            past: blocks and finished trials in the order in which they came about: the sampler
                is brought back to where it was by the same asking and telling.
        """
        for each in past:
            if isinstance(each, FinishedTrial):
                self._outcomes[each.trial.key] = each.outcome
                self._tell_if_known(each.trial.block)
            elif self._plan.holds(each.index):
                self._source.replay(each.index, each.config)
                self._admit(each)
        for index, trials in self._blocks.items():
            self._put(index, trials)

    def next(self) -> tuple[Issue, Block | None] | None:
        """The next trial to start, with its block if that is new; None if no lane wants one now."""
        for queue in sorted(self._queues, key=lambda queue: queue.spare, reverse=True):
            if queue.spare < 0 or (queue.spare == 0 and self._are_last_ones(queue)):
                continue
            new = self._supply(queue)
            trial = queue.pick()
            if trial is not None:
                queue.out += 1
                attempt = self._attempts[trial.key] = self._attempts.get(trial.key, 0) + 1
                issue = Issue(trial, queue.lane, self._devices[trial.arm], attempt)
                self._out[trial.key] = issue
                return issue, new
        return None

    def finish(self, issue: Issue, outcome: Outcome) -> None:
        """Take a trial's outcome; the sampler is told as soon as its objectives can be read."""
        self._take_back(issue)
        self._outcomes[issue.trial.key] = outcome
        self._tell_if_known(issue.trial.block)

    def give_back(self, issue: Issue, *, charged: bool = True) -> None:
        """Take back a trial whose attempt was lost, or (not charged) never began.

        It is the next one on its lane; where that is gone, or its node now stands for other
        hardware, the next one of its hardware.
        """
        if not charged:
            self._attempts[issue.trial.key] -= 1
        queue = self._take_back(issue)
        if queue is not None and self._group_of(issue.trial) in queue.groups:
            queue.waiting.appendleft(issue.trial)
        else:
            units = self._units.setdefault(issue.trial.block, {})
            units.setdefault(self._group_of(issue.trial), deque()).appendleft(issue.trial)
            self._units = dict(sorted(self._units.items()))  # the oldest block comes first

    @property
    def done(self) -> bool:
        """Whether every trial of the sweep has an outcome."""
        return (
            not self._out
            and not any(queue.waiting for queue in self._queues)
            and not self._units
            and self._next_index() is None
        )

    @property
    def out(self) -> int:
        """How many trials are handed out and not yet back."""
        return len(self._out)

    def has_lane(self, node_id: str) -> bool:
        """Whether trials may be handed out to a node."""
        return any(queue.lane.node.id == node_id for queue in self._queues)

    @property
    def stranded(self) -> dict[str, int]:
        """How many trials of begun blocks wait for hardware that has no lane, by its name.

        Where there is no lane at all, blocks that have not begun wait, too.
        """
        waiting: Counter[str] = Counter()
        for units in self._units.values():
            for group, trials in units.items():
                if not group.lanes:
                    waiting.update(trial.arm.hardware for trial in trials)
        if not self._queues and self._next_index() is not None:
            for arm in self._plan.arms:
                unseen = self._plan.blocks - len(self._blocks)
                waiting[arm.hardware] += unseen * self._plan.repeats
        return dict(waiting)

    def _take_back(self, issue: Issue) -> LaneQueue | None:
        """The queue of its lane, if that is still there, with room for another one."""
        del self._out[issue.trial.key]
        node = issue.lane.node.id
        queue = next((queue for queue in self._queues if queue.lane.node.id == node), None)
        if queue is not None:
            queue.out -= 1
        return queue

    def _group_of(self, trial: Trial) -> LaneGroup:
        return next(group for group in self._groups if trial.arm.hardware in group.hardware)

    def _are_last_ones(self, queue: LaneQueue) -> bool:
        """Whether fewer blocks are left for the lane than there are lanes that could take them.

        Then none is handed to a lane that is at work: another one may be idle before it.
        """
        if queue.waiting:
            return False
        rivals = len({lane.node.id for group in queue.groups for lane in group.lanes})
        unseen = 0 if self._used_up else self._plan.blocks - len(self._blocks)
        begun = (u for u in self._units.values() if not u.keys().isdisjoint(queue.groups))
        return unseen + sum(1 for _ in itertools.islice(begun, rivals)) < rivals

    def _supply(self, queue: LaneQueue) -> Block | None:
        """See to it that a lane has a next trial; the block that is new for that."""
        while queue.is_short:
            held = len(queue.waiting)
            new = self._refill(queue)
            if new is not None or len(queue.waiting) == held:
                return new
        return None

    def _refill(self, queue: LaneQueue) -> Block | None:
        """Give an idle lane the oldest block that its hardware has not run, or a new one."""
        for index, units in self._units.items():
            if not units.keys().isdisjoint(queue.groups):
                self._take(queue, index)
                return None
        block = self._suggest()
        if block is not None:
            self._admit(block)
            self._take(queue, block.index)
        return block

    def _take(self, queue: LaneQueue, index: int) -> None:
        """Put all of a block that a lane can run into its queue, in the block's order."""
        units = self._units[index]
        taken = {trial.key for group in queue.groups for trial in units.pop(group, ())}
        if not units:
            del self._units[index]
        queue.waiting.extend(trial for trial in self._blocks[index] if trial.key in taken)

    def _suggest(self) -> Block | None:
        index = self._next_index()
        if index is None:
            return None
        if self._open_limit is not None and len(self._untold) >= self._open_limit:
            return None
        config = self._source.suggest(index)
        if config is None:
            self._used_up = True
            return None
        return Block(index, config)

    def _next_index(self) -> int | None:
        if self._used_up or len(self._blocks) >= self._plan.blocks:
            return None
        while self._unseen in self._blocks or not self._plan.holds(self._unseen):
            self._unseen += 1
        return self._unseen

    def _admit(self, block: Block) -> None:
        self._blocks[block.index] = self._trials(block)
        self._untold.add(block.index)
        self._put(block.index, self._blocks[block.index])
        self._tell_if_known(block.index)

    def _put(self, index: int, trials: Iterable[Trial]) -> None:
        """Keep those of a block's trials that have no outcome, by the lanes that run them."""
        units: dict[LaneGroup, deque[Trial]] = {}
        for trial in trials:
            if trial.key not in self._outcomes:
                units.setdefault(self._group_of(trial), deque()).append(trial)
        self._units.pop(index, None)
        if units:
            self._units[index] = units

    def _trials(self, block: Block) -> tuple[Trial, ...]:
        """The block's trials in the order to run them.

        A repeat is a complete round of the arms, each round in a random order of its own that
        depends on the seed alone.
        """
        trials: list[Trial] = []
        for repeat in range(self._plan.repeats):
            arms = sorted(self._plan.arms)
            seed = derive_seed(self._identity.seed, "order", block.index, repeat)
            random.Random(seed).shuffle(arms)
            trials += [make_trial(self._identity, block, arm, repeat) for arm in arms]
        return tuple(trials)

    def _tell_if_known(self, index: int) -> None:
        if index not in self._untold:
            return
        outcomes: dict[Arm, list[Outcome]] = {}
        for trial in self._blocks[index]:
            if trial.key in self._outcomes:
                outcomes.setdefault(trial.arm, []).append(self._outcomes[trial.key])
        if not all(len(outcomes.get(arm, ())) == self._plan.repeats for arm in self._arms_read()):
            return
        self._untold.remove(index)
        values = [
            block_value(metric, objective, outcomes)
            for metric, objective in self._objectives.items()
        ]
        known = [value for value in values if value is not None]
        self._source.tell(index, known if len(known) == len(values) else None)

    def _arms_read(self) -> set[Arm]:
        """The arms that some objective reads; all of them where there is no objective."""
        if not self._objectives:
            return set(self._plan.arms)
        return {
            arm
            for objective in self._objectives.values()
            for arm in arms_read(objective, self._plan.arms)
        }
