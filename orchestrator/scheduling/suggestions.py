"""The blocks of a sweep, suggested one after another, and reported to the source of configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.core.arms import Arm
from orchestrator.core.trial import Block, FinishedTrial, Trial
from orchestrator.planning.objectives import arms_read, arms_that_speak, block_value
from orchestrator.scheduling.config_source import ConfigSource
from orchestrator.scheduling.ledger import Ledger
from orchestrator.spec import Objective


@dataclass(slots=True)
class Suggestions:
    """The dialogue with the source of configs: it asks for blocks, and reports their results.

    `open_blocks` are suggested and without a result; at most `open_limit` of them may be, None for
    no limit. A block has its result as soon as the arms that the `objectives` read have run it.
    Without objectives the source learns nothing.
    """

    ledger: Ledger
    source: ConfigSource
    objectives: Mapping[str, Objective]
    open_limit: int | None = None
    open_blocks: set[int] = field(default_factory=set)
    _awaited_arms: Sequence[Arm] = ()
    """The running arms whose outcomes a block's result waits for."""
    _followable_arms: set[Arm] = field(default_factory=set)
    """The arms whose epochs the pruner may follow, stopped ones too."""
    _followed: dict[int, str] = field(default_factory=dict)
    """For each block: the key of the trial whose epochs the pruner follows."""
    _has_no_more_configs: bool = False
    _first_free_index: int = 0

    def __post_init__(self) -> None:
        self._update_arms()

    @property
    def to_come(self) -> int:
        """Return how many blocks may still be suggested."""
        if self._has_no_more_configs or self.ledger.stop_decision is not None:
            return 0
        return max(0, self.ledger.plan.blocks - len(self.ledger.blocks))

    def objectives_of(self, arm: Arm) -> tuple[str, ...]:
        """Return the metrics of the objectives that read an arm's trials."""
        return tuple(
            metric
            for metric, objective in self.objectives.items()
            if arm in arms_read(objective, self.ledger.plan.arms)
        )

    @property
    def unread(self) -> list[str]:
        """Return the metrics of the objectives whose arms are all stopped, while others run."""
        running = self.ledger.running_arms
        return [
            metric
            for metric, objective in self.objectives.items()
            if running and not arms_read(objective, running)
        ]

    def suggest(self) -> Block | None:
        """Add a new block to the ledger; return None if there is none, or too many are open."""
        if not self.to_come:
            return None
        if self.open_limit is not None and len(self.open_blocks) >= self.open_limit:
            return None
        index = self._next_free_index()
        config = self.source.suggest(index)
        if config is None:
            self._has_no_more_configs = True
            return None
        block = Block(index, config)
        self.ledger.add_block(block)
        self.open_blocks.add(index)
        self._report_if_ready(index)
        return block

    def _next_free_index(self) -> int:
        """Return the lowest index of the plan without a block: earlier starts may leave gaps."""
        ledger = self.ledger
        while self._first_free_index in ledger.blocks or not ledger.plan.has_block(
            self._first_free_index
        ):
            self._first_free_index += 1
        return self._first_free_index

    def replay(self, block: Block) -> None:
        """Take over a block of the ledger that an earlier start suggested."""
        self.source.replay(block.index, block.config)
        self.open_blocks.add(block.index)
        self._report_if_ready(block.index)

    def observe(self, finished: FinishedTrial, *, stops_its_arm: bool = False) -> bool:
        """Take an outcome that the ledger has; return whether a block has its result by it.

        Epochs of an earlier start are given to the pruner first. If the outcome `stops_its_arm`,
        the blocks that waited only for that arm have their results.
        """
        if finished.block not in self._followed:
            for epoch in finished.outcome.epochs:
                self.take_epoch(finished.trial, epoch.index, epoch.metrics)
        open_before = len(self.open_blocks)
        if stops_its_arm:
            self._update_arms()
            self._has_no_more_configs |= not self.ledger.running_arms
        self._report_if_ready(finished.block)
        if stops_its_arm:
            for index in self.ledger.blocks:
                self._report_if_ready(index)
        return len(self.open_blocks) < open_before

    def can_follow(self, trial: Trial) -> bool:
        """Return whether the pruner may follow a trial's epochs: an objective reads its arm."""
        return trial.arm in self._followable_arms

    def take_epoch(self, trial: Trial, step: int, metrics: Mapping[str, float]) -> bool:
        """Report an epoch of a trial to the pruner; return whether the block ends.

        It follows the first trial of a block to report one.
        """
        index = trial.block
        values = [metrics[name] for name in self.objectives if name in metrics]
        is_read = bool(values) and index in self.open_blocks and self.can_follow(trial)
        if not is_read or self._followed.setdefault(index, trial.key) != trial.key:
            return False
        return self.source.should_prune(index, step, values[0])

    def _update_arms(self) -> None:
        """Find out which arms results wait for, and which the pruner may follow, as arms stop."""
        running, objectives = self.ledger.running_arms, self.objectives.values()
        self._awaited_arms = arms_that_speak(objectives, running)
        read = {arm for objective in objectives for arm in arms_read(objective, running)}
        self._followable_arms |= read.intersection(self._awaited_arms)

    def _report_if_ready(self, index: int) -> None:
        """Report an open block if the arms that objectives read have run it, or if it is pruned."""
        if index not in self.open_blocks:
            return
        outcomes, is_pruned = self.ledger.outcomes_of(index), index in self.ledger.pruned
        repeats = self.ledger.plan.repeats
        if not is_pruned and any(
            len(outcomes.get(arm, ())) < repeats for arm in self._awaited_arms
        ):
            return
        self.open_blocks.remove(index)
        values = [
            block_value(metric, objective, outcomes)
            for metric, objective in self.objectives.items()
        ]
        numbers = [value for value in values if value is not None]
        has_all = len(numbers) == len(values) and not is_pruned
        is_bad = is_pruned or any(
            outcome.failure is not None and outcome.failure.reason == "non_finite"
            for of_arm in outcomes.values()
            for outcome in of_arm
        )
        self.source.report(index, numbers if has_all else None, is_bad=is_bad and not has_all)
