"""The ledger of a sweep: which trials there are, which have ended, which are missing.

It is pure: it has no lanes, no sampler, no clock, and writes nothing. The same blocks and outcomes
in the same order make the same ledger. So the running sweep (`Dispatcher`) and the start that
resumes it (`remaining_work`) come to the same, as each of them fills a ledger.
"""

import random
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.core.arms import Arm
from orchestrator.core.failure_limit import FailureLimit
from orchestrator.core.stop_decision import StopDecision, StoppingRule
from orchestrator.core.trial import (
    Block,
    FinishedTrial,
    Outcome,
    SweepIdentity,
    Trial,
    derive_seed,
    make_trial,
)
from orchestrator.planning.plan import Plan


@dataclass(slots=True)
class Ledger:
    """The blocks of a plan, the outcomes of their trials, and what follows from these alone.

    That is: which blocks the pruner has ended (`pruned`), which arms are stopped (by `failures`),
    and whether the sweep has enough blocks (`stop_decision`, by the first of the `stopping_rules`
    that decides).
    """

    identity: SweepIdentity
    plan: Plan
    failures: FailureLimit = field(default_factory=FailureLimit)
    stopping_rules: Sequence[StoppingRule] = ()
    stop_decision: StopDecision | None = None
    blocks: dict[int, Block] = field(default_factory=dict)
    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    pruned: set[int] = field(default_factory=set)
    _trials: dict[int, tuple[Trial, ...]] = field(default_factory=dict)

    def replay(self, history: Iterable[Block | FinishedTrial]) -> None:
        """Add the blocks and the outcomes of earlier starts, in their order."""
        for event in history:
            if isinstance(event, FinishedTrial):
                self.add_outcome(event)
            else:
                self.add_block(event)

    def add_block(self, block: Block) -> bool:
        """Add a suggested block; return False, and ignore it, if the plan has no such block."""
        if not self.plan.has_block(block.index):
            return False
        self.blocks[block.index] = block
        self._trials.pop(block.index, None)
        return True

    def add_outcome(self, finished: FinishedTrial) -> bool:
        """Add an outcome, or replace the trial's earlier one; return whether it stops its arm.

        An outcome may come before its block, and may be of a trial that the plan no longer has.
        """
        self.finished[finished.key] = finished
        if finished.status == "pruned":
            self.pruned.add(finished.block)
        self._apply_stopping_rules(finished)
        stops_its_arm = self.failures.add_outcome(finished)
        if stops_its_arm:
            for rule in self.stopping_rules:
                rule.stop_arm(finished.arm)
        return stops_its_arm

    def _apply_stopping_rules(self, finished: FinishedTrial) -> None:
        """Show the rules an outcome until one of them decides; the first decision stays."""
        if self.stop_decision is not None:
            return
        for rule in self.stopping_rules:
            if (decision := rule.add_outcome(finished)) is not None:
                blocks = decision.blocks or self.count_complete_blocks()
                self.stop_decision = replace(decision, rule=rule.name, blocks=blocks)
                return

    @property
    def stopped_arms(self) -> Container[Arm]:
        """The arms whose remaining trials are not run: they failed too often in the same way."""
        return self.failures.stopped

    @property
    def running_arms(self) -> tuple[Arm, ...]:
        """The arms of the plan that are not stopped."""
        return tuple(arm for arm in self.plan.arms if arm not in self.stopped_arms)

    def trials_of(self, index: int) -> tuple[Trial, ...]:
        """Return all trials of a block, in the order in which they are handed out.

        A repeat has a trial of each arm, in a random order of its own, which depends on the seed
        alone: it decides which rounds come first where the arms cannot all take turns.
        """
        if index not in self._trials:
            self._trials[index] = tuple(self._make_trials(self.blocks[index]))
        return self._trials[index]

    def _make_trials(self, block: Block) -> Iterable[Trial]:
        """Yield a block's trials, each repeat in random order; equal seeds make equal orders."""
        in_order = sorted(self.plan.arms)
        for repeat in range(self.plan.repeats):
            arms = list(in_order)
            seed = derive_seed(self.identity.seed, "order", block.index, repeat)
            random.Random(seed).shuffle(arms)
            for arm in arms:
                yield make_trial(self.identity, block, arm, repeat)

    def missing_trials(self, index: int) -> list[Trial]:
        """Return the trials of a block that are still to be run, those at work among them.

        A pruned block has none, and neither has a stopped arm.
        """
        if index in self.pruned:
            return []
        return [
            trial
            for trial in self.trials_of(index)
            if trial.key not in self.finished and trial.arm not in self.stopped_arms
        ]

    def count_missing(self) -> int:
        """Count the trials of the plan that are still to be run, in blocks to come too."""
        return self.plan.without(self.stopped_arms).count_missing(self.finished.values())

    def count_complete_blocks(self) -> int:
        """Count the blocks that miss no trial."""
        return sum(not self.missing_trials(index) for index in self.blocks)

    def outcomes_of(self, index: int) -> Mapping[Arm, Sequence[Outcome]]:
        """Return the outcomes of a block so far, by arm."""
        outcomes = defaultdict[Arm, list[Outcome]](list)
        for trial in self.trials_of(index):
            if trial.key in self.finished:
                outcomes[trial.arm].append(self.finished[trial.key].outcome)
        return outcomes
