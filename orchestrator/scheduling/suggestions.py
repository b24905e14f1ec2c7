"""Which blocks are asked for, and when the sampler is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from orchestrator.core.trial import Arm, Block, Config, FinishedTrial, Outcome
from orchestrator.planning.objectives import arms_read, arms_that_speak, block_value
from orchestrator.planning.plan import Plan
from orchestrator.spec import Objective

if TYPE_CHECKING:
    from orchestrator.analysis.stopping import StopDecision, StoppingRule


class Source(Protocol):
    """Where configs come from and what is told of their blocks (see `Suggester`)."""

    def suggest(self, index: int) -> Config | None:
        """The config of a new block, or None when there is none left."""

    def replay(self, index: int, config: Config) -> None:
        """A block that an earlier start suggested."""

    def tell(self, index: int, values: Sequence[float] | None) -> None:
        """A block's objective values, or None for a failure."""


class Suggestions:
    """A sweep's blocks, asked for one after another until there are all, or enough.

    `open_limit` is how many may be suggested and not yet told; None for no limit.

    Args:
        plan: which blocks there may be.
        source: gives configs and is told of blocks.
        objectives: by metric; empty where the sampler does not learn.
        gathering: decides when there are enough; None where the plan says how many.
    """

    def __init__(
        self,
        plan: Plan,
        source: Source,
        objectives: Mapping[str, Objective],
        stopping_rule: StoppingRule | None,
    ) -> None:
        self.open_limit: int | None = None
        self._plan = plan
        self._source = source
        self._objectives = objectives
        self._speaking = arms_that_speak(objectives.values(), plan.arms)
        self._stopping_rule = stopping_rule
        self._known: set[int] = set()
        self._untold: set[int] = set()
        self._used_up = False
        self._unseen = 0

    @property
    def stop_decision(self) -> StopDecision | None:
        """After how many blocks no more are asked for, and why; None where that is not so yet."""
        return self._stopping_rule.stop_decision if self._stopping_rule else None

    @property
    def to_come(self) -> int:
        """How many blocks may still be asked for."""
        has_all = self._used_up or self.stop_decision is not None
        return 0 if has_all else max(0, self._plan.blocks - len(self._known))

    def objectives_of(self, arm: Arm) -> tuple[str, ...]:
        """The metrics of the objectives that read an arm's trials."""
        return tuple(
            metric
            for metric, objective in self._objectives.items()
            if arm in arms_read(objective, self._plan.arms)
        )

    def suggest(self) -> Block | None:
        """A new block; None where there is none left, or too many are open."""
        if not self.to_come:
            return None
        if self.open_limit is not None and len(self._untold) >= self.open_limit:
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

    def hear(self, finished: FinishedTrial) -> None:
        """Take an outcome that will not be done again: there may be blocks enough."""
        if self._stopping_rule is not None:
            self._stopping_rule.take(finished)

    def is_untold(self, index: int) -> bool:
        """Whether a block is open: the source has not been told of it."""
        return index in self._untold

    def tell(self, index: int, outcomes: Mapping[Arm, Sequence[Outcome]]) -> None:
        """Tell the source of an open block, as soon as its arms that speak have all outcomes."""
        if any(len(outcomes.get(arm, ())) < self._plan.repeats for arm in self._speaking):
            return
        self._untold.remove(index)
        values = [
            block_value(metric, objective, outcomes)
            for metric, objective in self._objectives.items()
        ]
        known = [value for value in values if value is not None]
        self._source.tell(index, known if len(known) == len(values) else None)

    def _open(self, index: int) -> None:
        self._known.add(index)
        self._untold.add(index)

    def _next_index(self) -> int:
        while self._unseen in self._known or not self._plan.has_block(self._unseen):
            self._unseen += 1
        return self._unseen
