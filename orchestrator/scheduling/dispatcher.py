"""The running sweep without Ray, Optuna and a clock: it hands rounds to lanes, takes outcomes back.

Three parts do the work, and this one passes between them what happens: the ledger
(`ledger.py`: which trials there are, ended and missing), the lane policy (`lane_policy.py`: which
lane gets which round next) and the suggestions (`suggestions.py`: new blocks, and results for the
sampler). As none of them waits for anything, every order of events can be tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from orchestrator.core.arms import HardwareUse
from orchestrator.core.selectors import names_arm
from orchestrator.core.trial import Block, FinishedTrial, Outcome, Trial
from orchestrator.planning.lanes import LaneGroup
from orchestrator.scheduling.config_source import ConfigSource
from orchestrator.scheduling.lane_index import LaneIndex
from orchestrator.scheduling.lane_policy import next_round
from orchestrator.scheduling.lane_queue import Assignment, LaneQueue, at_work
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.suggestions import Suggestions
from orchestrator.spec import Objective


@dataclass(slots=True)
class Dispatcher:
    """The assignments of a sweep: handed out, lost and given back, finished.

    `begin` makes one; `restore` gives it what earlier starts did. `baseline` is the spec's choice,
    whose arm is the first of each round. `ending` are blocks that the pruner ends, with rounds that
    are still handed out.
    """

    ledger: Ledger
    suggestions: Suggestions
    lanes: LaneIndex
    baseline: str | None = None
    ending: set[int] = field(default_factory=set)
    _out: dict[str, Assignment] = field(default_factory=dict)  # by the key of its first trial
    _attempts: Counter[str] = field(default_factory=Counter)
    _new_blocks: list[Block] = field(default_factory=list)  # since the last assignment

    @classmethod
    def begin(
        cls,
        ledger: Ledger,
        source: ConfigSource,
        objectives: Mapping[str, Objective],
        groups: Sequence[LaneGroup],
        *,
        open_limit: int | None = None,
        baseline: str | None = None,
    ) -> Self:
        """Return the dispatcher of a plan's empty ledger, on the lanes of `make_lanes`."""
        suggestions = Suggestions(ledger, source, objectives)
        dispatcher = cls(ledger, suggestions, LaneIndex(ledger), baseline)
        dispatcher.set_lanes(groups, open_limit)
        return dispatcher

    def set_lanes(self, groups: Sequence[LaneGroup], open_limit: int | None) -> None:
        """Set the lanes, or replace them after nodes left or joined.

        `open_limit` is the one for these lanes. Rounds that are out on a removed lane stay out.
        """
        self.suggestions.open_limit = open_limit
        self.lanes.replace_lanes(groups, self._keys_out())

    def restore(self, history: Iterable[Block | FinishedTrial]) -> None:
        """Take over blocks and trials of earlier starts, in their order; the rest may run."""
        for event in history:
            if isinstance(event, FinishedTrial):
                self.suggestions.observe(event, stops_its_arm=self.ledger.add_outcome(event))
            elif self.ledger.add_block(event):
                self.suggestions.replay(event)
        self.lanes.replace_lanes(self.lanes.groups, ())
        for index in self.ledger.blocks:
            self.lanes.offer(index)

    def next(self) -> tuple[Assignment, list[Block]] | None:
        """Return the next round to start, and the blocks that are new; None if no lane gets one."""
        decided = next_round(self.lanes, self._suggest, self.suggestions.to_come)
        if decided is None:
            return None
        queue, members = decided
        queue.out += 1
        self.lanes.recheck(queue)
        new_blocks, self._new_blocks = self._new_blocks, []
        return self._assign(queue, members), new_blocks

    def finish(self, assignment: Assignment, *outcomes: Outcome) -> None:
        """Take the outcomes of a round, in the order of its trials, and report to the sampler."""
        self._release_lane(assignment)
        has_stopped_arm = False
        for trial, outcome in zip(assignment.trials, outcomes, strict=True):  # as in `restore`
            finished = FinishedTrial(trial, outcome)
            stops_its_arm = self.ledger.add_outcome(finished)
            has_stopped_arm |= stops_its_arm
            if self.suggestions.observe(finished, stops_its_arm=stops_its_arm):
                self._let_lanes_suggest_more()
        if has_stopped_arm:
            self.lanes.replace_lanes(self.lanes.groups, self._keys_out())
        self._end_block_if_idle(assignment.block)

    def take_epoch(
        self, assignment: Assignment, trial: Trial, step: int, metrics: Mapping[str, float]
    ) -> bool:
        """Take an epoch of a round's trial; return whether the round is to end, with its block.

        The pruner follows one arm of a round: the first that the objectives read. All rounds of the
        block that are out then end after an epoch; others run only if none did.
        """
        index = assignment.block
        followed = next(filter(self.suggestions.can_follow, assignment.trials), None)
        if trial == followed and self.suggestions.take_epoch(trial, step, metrics):
            self.ending.add(index)
            self.lanes.withdraw(index)
        return index in self.ending

    def give_back(self, assignment: Assignment, *, charged: bool = True) -> None:
        """Take back a round whose attempt was lost, or (not charged) never began.

        It is the next one on its lane, or of its hardware if that lane is gone. In a block that the
        pruner ends it waits for the block's end. Arms that are stopped by now leave it.
        """
        if not charged:
            self._attempts.subtract(assignment.keys)
        queue = self._release_lane(assignment)
        if assignment.block in self.ending:
            self._end_block_if_idle(assignment.block)
        else:
            self.lanes.give_back(assignment.trials, queue)

    @property
    def done(self) -> bool:
        """Return whether every trial of the sweep has an outcome."""
        return not self._out and not self.suggestions.to_come and self.lanes.is_empty

    @property
    def out(self) -> int:
        """How many rounds are handed out and not yet back."""
        return len(self._out)

    @property
    def running(self) -> list[Assignment]:
        """The assignments that can be running."""
        return at_work(self.handed_out)

    @property
    def handed_out(self) -> list[Assignment]:
        """The assignments that are not yet back, running or waiting for their lane."""
        return [*self._out.values()]

    def is_obsolete(self, assignment: Assignment) -> bool:
        """Return whether a round that waits for its lane should not begin as it is.

        Its lane is gone, the pruner ends its block, or one of its arms is stopped.
        """
        if assignment.block in self.ending or not self.has_lane(assignment.lane.node.id):
            return True
        return any(trial.arm in self.ledger.stopped_arms for trial in assignment.trials)

    def has_lane(self, node_id: str) -> bool:
        """Return whether rounds may be handed out to a node."""
        return node_id in self.lanes.queues

    @property
    def waiting_for_nodes(self) -> dict[HardwareUse, int]:
        """Return how many trials wait for hardware without a lane.

        Without any lane the trials of the blocks to come count too.
        """
        waiting = self.lanes.count_without_lane()
        if not self.lanes.queues:
            to_come = self.suggestions.to_come * self.ledger.plan.repeats
            if to_come:
                for arm in self.ledger.running_arms:
                    waiting[arm.hardware] += to_come
        return dict(waiting)

    def _suggest(self) -> Block | None:
        """Suggest a block, note it for the journal, and let its trials wait for lanes."""
        block = self.suggestions.suggest()
        if block is not None:
            self._new_blocks.append(block)
            self.lanes.offer(block.index)
        return block

    def _assign(self, queue: LaneQueue, members: Sequence[Trial]) -> Assignment:
        """Hand out a round, the baseline's trial first."""
        attempt = 1 + max(self._attempts[member.key] for member in members)
        assignment = Assignment(tuple(self._baseline_first(members)), queue.lane, attempt)
        for key in assignment.keys:
            self._attempts[key] = attempt
        self._out[assignment.key] = assignment
        return assignment

    def _baseline_first(self, members: Sequence[Trial]) -> list[Trial]:
        """Return the trials of a round, the baseline's at the front."""
        baseline = self.baseline or ""
        if not any(names_arm(baseline, arm) for arm in self.ledger.plan.arms):
            baseline = str(self.ledger.plan.arms[0])  # there is none, or it cannot run
        return sorted(members, key=lambda member: not names_arm(baseline, member.arm))

    def _keys_out(self) -> set[str]:
        """Return the keys of all trials that are handed out."""
        return {key for assignment in self._out.values() for key in assignment.keys}

    def _release_lane(self, assignment: Assignment) -> LaneQueue | None:
        """Return the queue of a round's lane, with room for another one; None if it left."""
        del self._out[assignment.key]
        queue = self.lanes.queues.get(assignment.lane.node.id)
        if queue is not None:
            queue.out -= 1
            self.lanes.recheck(queue)
        return queue

    def _let_lanes_suggest_more(self) -> None:
        """Let every lane be looked at: where open blocks are limited, one more may be suggested."""
        if self.suggestions.open_limit is not None:
            self.lanes.recheck_every_lane()

    def _end_block_if_idle(self, index: int) -> None:
        """End an ending block when no round of it is out; its trials run on if none was pruned."""
        if index in self.ending and all(out.block != index for out in self._out.values()):
            self.ending.remove(index)
            self.lanes.offer(index)
            self.lanes.recheck_every_lane()
