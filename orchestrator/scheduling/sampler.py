"""The blocks of a sweep, suggested one after another, and reported to the source of configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.core.arms import Arm
from orchestrator.core.failures import FailureLimit
from orchestrator.core.trial import Block, FinishedTrial, Outcome
from orchestrator.planning.objectives import arms_read, arms_that_speak, block_value
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import Objective

if TYPE_CHECKING:
    from orchestrator.analysis.stopping import StopDecision, StoppingRule


@dataclass(slots=True)
class Suggestions:
    """The blocks of a sweep, suggested one after another until no more are needed.

    `open_limit` is how many suggested blocks may be without a result; None for no limit. Without
    `objectives` the sampler does not learn; without a `stopping_rule` the number of blocks is
    fixed. `failures` decides which arms are stopped. `open_blocks` are those without a result.
    """

    plan: Plan
    source: Suggester
    objectives: Mapping[str, Objective]
    stopping_rule: StoppingRule | None = None
    failures: FailureLimit = field(default_factory=FailureLimit)
    open_limit: int | None = None
    open_blocks: set[int] = field(default_factory=set)
    _known: set[int] = field(default_factory=set)
    _running: Sequence[Arm] = ()
    _speaking: Sequence[Arm] = ()
    _followable: set[Arm] = field(default_factory=set)
    _followed: dict[int, str] = field(default_factory=dict)
    _used_up: bool = False
    _unseen: int = 0

    def __post_init__(self) -> None:
        self._read_arms(self.plan.arms)

    @property
    def stop_decision(self) -> StopDecision | None:
        """Return the decision that no more blocks are needed; None before it."""
        return self.stopping_rule.stop_decision if self.stopping_rule else None

    @property
    def to_come(self) -> int:
        """Return how many blocks may still be suggested."""
        has_all = self._used_up or self.stop_decision is not None
        return 0 if has_all else max(0, self.plan.blocks - len(self._known))

    def objectives_of(self, arm: Arm) -> tuple[str, ...]:
        """Return the metrics of the objectives that read an arm's trials."""
        return tuple(
            metric
            for metric, objective in self.objectives.items()
            if arm in arms_read(objective, self.plan.arms)
        )

    @property
    def unread(self) -> list[str]:
        """Return the metrics of the objectives whose arms are all stopped, while others run."""
        arms = self._running
        return [m for m, own in self.objectives.items() if arms and not arms_read(own, arms)]

    def suggest(self) -> Block | None:
        """Return a new block; None if there is none left, or too many are open."""
        if not self.to_come:
            return None
        if self.open_limit is not None and len(self.open_blocks) >= self.open_limit:
            return None
        while self._unseen in self._known or not self.plan.has_block(self._unseen):
            self._unseen += 1
        index = self._unseen
        config = self.source.suggest(index)
        if config is None:
            self._used_up = True
            return None
        self._open(index)
        return Block(index, config)

    def replay(self, block: Block) -> None:
        """Take over a block that an earlier start suggested."""
        self.source.replay(block.index, block.config)
        self._open(block.index)

    def observe(self, finished: FinishedTrial) -> bool:
        """Take a final outcome; return True if it stops its arm: objectives read the others."""
        index, arm, rule = finished.block, finished.arm, self.stopping_rule
        for epoch in finished.outcome.epochs if index not in self._followed else ():
            self.take_epoch(index, arm, epoch.index, epoch.metrics, finished.key)
        if rule is not None:
            rule.take(finished)
        if not self.failures.take(finished):
            return False
        if rule is not None:
            rule.stop_arm(arm)
        self._read_arms([arm for arm in self.plan.arms if arm not in self.failures.stopped])
        self._used_up |= not self._running
        return True

    def _read_arms(self, arms: Sequence[Arm]) -> None:
        """Keep which of the running arms blocks wait for, and which more the pruner may follow."""
        objectives, self._running = self.objectives.values(), arms
        self._speaking = arms_that_speak(objectives, arms)
        read = {arm for objective in objectives for arm in arms_read(objective, arms)}
        self._followable |= read.intersection(self._speaking)

    def take_epoch(
        self, index: int, arm: Arm, step: int, metrics: Mapping[str, float], key: str
    ) -> bool:
        """Report an epoch of a trial to the pruner; return whether the block ends.

        It follows the first trial of a block to report one, by its `key`.
        """
        values = [metrics[name] for name in self.objectives if name in metrics]
        is_read = bool(values) and index in self.open_blocks and arm in self._followable
        if not is_read or self._followed.setdefault(index, key) != key:
            return False
        return self.source.should_prune(index, step, values[0])

    def report(self, index: int, outcomes: Mapping[Arm, Sequence[Outcome]]) -> None:
        """Report an open block to the source, once the arms that objectives read are complete."""
        is_pruned = any(one.status == "pruned" for own in outcomes.values() for one in own)
        lacking = any(len(outcomes.get(arm, ())) < self.plan.repeats for arm in self._speaking)
        if lacking and not is_pruned:
            return
        self.open_blocks.remove(index)
        values = [
            block_value(metric, objective, outcomes)
            for metric, objective in self.objectives.items()
        ]
        numbers = [value for value in values if value is not None]
        is_whole = len(numbers) == len(values) and not is_pruned
        self.source.report(index, numbers if is_whole else None, is_pruned=is_pruned)

    def _open(self, index: int) -> None:
        self._known.add(index)
        self.open_blocks.add(index)
