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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from orchestrator.aims import Quiet
from orchestrator.lane_queue import LaneQueue
from orchestrator.objectives import arms_read, block_value
from orchestrator.placement import Lane, LaneGroup, lanes_of, sharing
from orchestrator.plan import Plan
from orchestrator.rounds import due_again, rerun_of, stand_again
from orchestrator.selector import names_arm
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

if TYPE_CHECKING:
    from orchestrator.report.enough import Enough, Gathering


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
    """A trial handed out: on which lane and device, and the how-manieth attempt it is.

    `others` are the rest of its round, where that is timed in slices, turn by turn. `rerun` is how
    often the round was done before.
    """

    trial: Trial
    lane: Lane
    device: Device
    attempt: int = 1
    others: tuple[Trial, ...] = ()
    rerun: int = 0

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All that run, the first one first."""
        return (self.trial, *self.others)


@dataclass(frozen=True, slots=True)
class Settled:
    """What the outcomes of an issue lead to.

    `again` are the trials of a disturbed round that is done again: the next ones on its lane.
    `standing` are the outcomes from before a rerun that stand, as it failed.
    """

    again: tuple[Trial, ...] = ()
    standing: tuple[FinishedTrial, ...] = ()


@dataclass(frozen=True, slots=True)
class Trust:
    """How surely a sweep is to decide, as far as its blocks know of it.

    `gathering` decides when there are blocks enough (None where the plan says how many), `quiet`
    what becomes of disturbed rounds; `baseline` (the spec's choice) is the arm that the others of a
    round of slices are timed against.
    """

    gathering: Gathering | None = None
    quiet: Quiet = field(default_factory=Quiet)
    baseline: str | None = None


class Blocks:
    """The blocks of one sweep, from suggestion to telling the sampler.

    Args:
        identity: what the trials' keys and seeds are derived from.
        plan: the arms that can run, the number of blocks and of repeats.
        groups: the lanes, from `placement.make_lanes`.
        objectives: by metric; empty where the sampler does not learn.
        source: gives configs and is told of blocks.
        open_limit: how many blocks may be suggested and not yet told; None for no limit.
        trust: how surely the sweep is to decide.
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
        trust: Trust = Trust(),
    ) -> None:
        self._identity = identity
        self._plan = plan
        self._objectives = objectives
        self._source = source
        self._gathering = trust.gathering
        self._quiet = trust.quiet
        self._baseline = trust.baseline
        self._reruns: dict[str, int] = {}
        self._devices = {planned.arm: planned.hardware.device for planned in plan.possible}
        self._groups: tuple[LaneGroup, ...] = ()
        self._queues: list[LaneQueue] = []
        self._out: dict[str, Issue] = {}
        self._blocks: dict[int, tuple[Trial, ...]] = {}
        self._units: dict[int, dict[LaneGroup, deque[Trial]]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._before: dict[str, FinishedTrial] = {}
        self._counted: set[str] = set()
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
        self._sharing = sharing(groups)
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
            self._count(trials)

    def restore(
        self,
        past: Iterable[Block | FinishedTrial],
        again: Mapping[str, int] | None = None,
        before: Mapping[str, FinishedTrial] | None = None,
    ) -> None:
        """Take over what earlier starts suggested and finished; only the rest is handed out.

        Args:
            past: blocks and finished trials in the order in which they came about: the sampler
                is brought back to where it was by the same asking and telling.
            again: trials that are to be done once more, and are not among the finished ones (see
                `rounds.due_again`).
            before: complete trials whose rounds are done again, as they were: what stands should
                that fail.
        """
        self._before |= before or {}
        self._reruns |= again or {}
        self._attempts |= again or {}
        for each in past:
            if isinstance(each, FinishedTrial):
                self._outcomes[each.trial.key] = each.outcome
                if self._plan.holds(each.trial.block):
                    self._count([each.trial])
                elif self._gathering is not None:
                    self._gathering.take(each)
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
                return self._issue(queue, trial), new
        return None

    def finish(self, issue: Issue, *outcomes: Outcome) -> Settled:
        """Take the outcomes of what ran; the sampler is told as soon as it can be."""
        queue = self._take_back(issue)
        ended = [
            FinishedTrial(trial, outcome)
            for trial, outcome in zip(issue.trials, outcomes, strict=True)
        ]
        self._outcomes |= {each.trial.key: each.outcome for each in ended}
        standing = self._stand_again(issue)
        node = ended[0].outcome.node or issue.lane.node.profile.hostname  # of a lost one: none
        again = self._due_again(issue, node, queue)
        self._reruns |= again
        members = tuple(t for t in self._blocks[issue.trial.block] if t.key in again)
        for trial in members:
            self._keep(FinishedTrial(trial, self._outcomes.pop(trial.key)))
        replaced = [each.trial for each in standing]
        self._counted.difference_update(each.key for each in (*members, *replaced))
        self._count([*issue.trials, *replaced])
        self._put_first(members, queue)
        return Settled(members, standing)

    def is_kept(self, trial: Trial) -> bool:
        """Whether a complete outcome of it is kept until its round, done again, has ended."""
        return trial.key in self._before

    def give_back(self, issue: Issue, *, charged: bool = True) -> None:
        """Take back a trial whose attempt was lost, or (not charged) never began.

        It is the next one on its lane; where that is gone, or its node now stands for other
        hardware, the next one of its hardware.
        """
        if not charged:
            self._attempts |= dict.fromkeys((each.key for each in issue.trials), issue.attempt - 1)
        self._put_first(issue.trials, self._take_back(issue))

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
    def enough(self) -> Enough | None:
        """After how many blocks no more are asked for, and why; None where that is not so yet."""
        return self._gathering.enough if self._gathering else None

    def objectives_of(self, arm: Arm) -> tuple[str, ...]:
        """The metrics of the objectives that read an arm's trials."""
        return tuple(
            metric
            for metric, objective in self._objectives.items()
            if arm in arms_read(objective, self._plan.arms)
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

    def _issue(self, queue: LaneQueue, trial: Trial) -> Issue:
        """Hand out a trial, with all that is timed in turns with it: the baseline's arm first."""
        keys = {each.key for each in (trial, *queue.take_round(trial))}
        members = [each for each in self._blocks[trial.block] if each.key in keys]
        members.sort(key=lambda each: not self._is_baseline(each.arm))
        rerun = self._rerun(members, queue.lane.node.profile.hostname)
        attempt = 1 + max(rerun, *(self._attempts.get(each.key, 0) for each in members))
        issue = Issue(
            members[0],
            queue.lane,
            self._devices[members[0].arm],
            attempt,
            tuple(members[1:]),
            rerun,
        )
        for each in members:
            self._attempts[each.key] = attempt
            self._out[each.key] = issue
        return issue

    def _rerun(self, members: Sequence[Trial], node: str) -> int:
        """How often their round was done before: an arm that joins it is not behind the others."""
        block, repeat = members[0].block, members[0].repeat
        of_round = (each for each in self._blocks[block] if each.repeat == repeat)
        known = (self._outcomes.get(each.key) for each in of_round)
        there = (rerun_of(outcome) for outcome in known if outcome and outcome.node == node)
        return max([*there, *(self._reruns.get(each.key, 0) for each in members)])

    def _is_baseline(self, arm: Arm) -> bool:
        if self._baseline is None:
            return arm == self._plan.arms[0]
        return names_arm(self._baseline, arm)

    def _due_again(self, issue: Issue, node: str, queue: LaneQueue | None) -> dict[str, int]:
        """The trials of an issue's round that are due once more; none while some of it is to run.

        The round is what the lane has of it, which is what ran on its node.
        """
        trials = [
            trial for trial in self._blocks[issue.trial.block] if trial.repeat == issue.trial.repeat
        ]
        at_work = {key for key, each in self._out.items() if each.lane.node == issue.lane.node}
        to_come = at_work | {trial.key for trial in (queue.waiting if queue else ())}
        if any(trial.key in to_come for trial in trials):
            return {}
        ended = [(trial, self._outcomes.get(trial.key)) for trial in trials]
        return due_again(
            (FinishedTrial(t, found) for t, found in ended if found and found.node == node),
            self._quiet,
        )

    def _keep(self, finished: FinishedTrial) -> None:
        if finished.outcome.status == "complete":
            self._before[finished.trial.key] = finished

    def _stand_again(self, issue: Issue) -> tuple[FinishedTrial, ...]:
        """What stands of an issue's round from before it was done again, where that failed."""
        held = [self._before[each.key] for each in issue.trials if each.key in self._before]
        nodes = {each.outcome.node for each in held}
        trial = issue.trial
        before = [
            each
            for each in self._before.values()
            if (each.trial.block, each.trial.repeat) == (trial.block, trial.repeat)
            and each.outcome.node in nodes
        ]
        if not all(each.trial.key in self._outcomes for each in before):
            return ()
        for each in before:
            del self._before[each.trial.key]
        standing = stand_again(before, self._outcomes) if before else ()
        self._outcomes |= {each.trial.key: each.outcome for each in standing}
        return standing

    def _count(self, trials: Iterable[Trial]) -> None:
        """Count the outcomes that are settled: the sampler is told, there may be blocks enough.

        A disturbed round is done again with all that its node has of it. Where that may come,
        nothing of a round counts before the rest of it: what would be told now, and what a later
        start tells in going over the same trials, would not be the same.
        """
        for trial in trials:
            bound = self._bound(trial)
            if any(each.key not in self._outcomes for each in bound):
                continue
            for each in bound:
                if each.key not in self._counted and self._gathering is not None:
                    self._gathering.take(FinishedTrial(each, self._outcomes[each.key]))
                self._counted.add(each.key)
            self._tell_if_known(trial.block)

    def _bound(self, trial: Trial) -> tuple[Trial, ...]:
        """The trials that may be done again together with one of them, that one too."""
        if self._quiet.action != "rerun":
            return (trial,)
        beside = next((each for each in self._sharing if trial.arm.hardware in each), frozenset())
        of_round = (t for t in self._blocks.get(trial.block, ()) if t.repeat == trial.repeat)
        return tuple(each for each in of_round if each.arm.hardware in beside)

    def _take_back(self, issue: Issue) -> LaneQueue | None:
        """The queue of its lane, if that is still there, with room for another one."""
        for trial in issue.trials:
            del self._out[trial.key]
        node = issue.lane.node.id
        queue = next((queue for queue in self._queues if queue.lane.node.id == node), None)
        if queue is not None:
            queue.out -= 1
        return queue

    def _put_first(self, trials: Sequence[Trial], queue: LaneQueue | None) -> None:
        """Have trials be the next ones on a lane, or else the next ones of their hardware."""
        for trial in reversed(trials):
            if queue is not None and self._group_of(trial) in queue.groups:
                queue.waiting.appendleft(trial)
            else:
                units = self._units.setdefault(trial.block, {})
                units.setdefault(self._group_of(trial), deque()).appendleft(trial)
        self._units = dict(sorted(self._units.items()))  # the oldest block comes first

    def _group_of(self, trial: Trial) -> LaneGroup:
        return next(group for group in self._groups if trial.arm.hardware in group.hardware)

    def _are_last_ones(self, queue: LaneQueue) -> bool:
        """Whether fewer blocks are left for the lane than there are lanes that could take them.

        Then none is handed to a lane that is at work: another one may be idle before it.
        """
        if queue.waiting:
            return False
        rivals = len({lane.node.id for group in queue.groups for lane in group.lanes})
        unseen = 0 if self._has_all else self._plan.blocks - len(self._blocks)
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

    @property
    def _has_all(self) -> bool:
        """Whether no more blocks are asked for, whatever the plan allows."""
        return self._used_up or self.enough is not None

    def _next_index(self) -> int | None:
        if self._has_all or len(self._blocks) >= self._plan.blocks:
            return None
        while self._unseen in self._blocks or not self._plan.holds(self._unseen):
            self._unseen += 1
        return self._unseen

    def _admit(self, block: Block) -> None:
        self._blocks[block.index] = self._trials(block)
        self._untold.add(block.index)
        self._put(block.index, self._blocks[block.index])
        self._count(self._blocks[block.index])

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
            if trial.key in self._counted:
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
