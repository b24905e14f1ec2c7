"""The blocks of a sweep: when a new one is suggested, and when its result is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.core.arms import Arm
from orchestrator.core.trial import Block, FinishedTrial, Outcome
from orchestrator.planning.objectives import arms_read, arms_that_speak, block_value
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.sampler import Suggester
from orchestrator.spec import Objective

if TYPE_CHECKING:
    from orchestrator.analysis.stopping import StopDecision, StoppingRule


class Suggestions:
    """The blocks of a sweep, suggested one after another until no more are needed.

    `open_limit` is how many suggested blocks may be without a result; None for no limit.

    Args:
        plan: which blocks there may be.
        source: suggests configs and takes the results of blocks.
        objectives: by metric; empty where the sampler does not learn.
        stopping_rule: decides when no more are needed; None for a fixed number of blocks.
    """

    def __init__(
        self,
        plan: Plan,
        source: Suggester,
        objectives: Mapping[str, Objective],
        stopping_rule: StoppingRule | None = None,
    ) -> None:
        self.open_limit: int | None = None
        self._plan = plan
        self._source = source
        self._objectives = objectives
        self._speaking = arms_that_speak(objectives.values(), plan.arms)
        self._stopping_rule = stopping_rule
        self._known: set[int] = set()
        self._open_blocks: set[int] = set()
        self._used_up = False
        self._unseen = 0

    @property
    def stop_decision(self) -> StopDecision | None:
        """Return the decision that no more blocks are needed; None before it."""
        return self._stopping_rule.stop_decision if self._stopping_rule else None

    @property
    def to_come(self) -> int:
        """Return how many blocks may still be suggested."""
        has_all = self._used_up or self.stop_decision is not None
        return 0 if has_all else max(0, self._plan.blocks - len(self._known))

    def objectives_of(self, arm: Arm) -> tuple[str, ...]:
        """Return the metrics of the objectives that read an arm's trials."""
        return tuple(
            metric
            for metric, objective in self._objectives.items()
            if arm in arms_read(objective, self._plan.arms)
        )

    def suggest(self) -> Block | None:
        """Return a new block; None if there is none left, or too many are open."""
        if not self.to_come:
            return None
        if self.open_limit is not None and len(self._open_blocks) >= self.open_limit:
            return None
        index = self._next_index()
        config = self._source.suggest(index)
        if config is None:
            self._used_up = True
            return None
        self._open(index)
        return Block(index, config)

    def replay(self, block: Block) -> None:
        """Take over a block that an earlier start suggested."""
        self._source.replay(block.index, block.config)
        self._open(block.index)

    def observe(self, finished: FinishedTrial) -> None:
        """Take a final outcome, which may decide that no more blocks are needed."""
        if self._stopping_rule is not None:
            self._stopping_rule.take(finished)

    def is_open(self, index: int) -> bool:
        """Return whether a block is open: its result has not been reported."""
        return index in self._open_blocks

    def report(self, index: int, outcomes: Mapping[Arm, Sequence[Outcome]]) -> None:
        """Report an open block to the source, once the arms that objectives read are complete."""
        if any(len(outcomes.get(arm, ())) < self._plan.repeats for arm in self._speaking):
            return
        self._open_blocks.remove(index)
        values = [
            block_value(metric, objective, outcomes)
            for metric, objective in self._objectives.items()
        ]
        numbers = [value for value in values if value is not None]
        self._source.report(index, numbers if len(numbers) == len(values) else None)

    def _open(self, index: int) -> None:
        self._known.add(index)
        self._open_blocks.add(index)

    def _next_index(self) -> int:
        while self._unseen in self._known or not self._plan.has_block(self._unseen):
            self._unseen += 1
        return self._unseen
