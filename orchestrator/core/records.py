"""The record of a sweep as read from the tracking store. Plain data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.start_command import UNKNOWN_START, StartCommand
from orchestrator.core.trial import DatasetRecord, FinishedTrial, ImpossibleArm

Direction = Literal["minimize", "maximize"]

EndState: TypeAlias = Literal["complete", "stopped", "failed"]
SweepStatus: TypeAlias = Literal["running", EndState]


@dataclass(frozen=True, slots=True, repr=False)
class SweepRecord:
    """A sweep: its plan, and the trials that have finished so far.

    Attributes:
        arms: The arms that can run, in the order of the spec. The first is the default baseline.
        impossible: The requested arms that cannot run, with reasons.
        expected_trials: The planned trials (blocks × current arms × repeats), and finished trials
            that only an earlier start planned.
        settings: The settings of all trials, defaults included.
        datasets: The data that trainers loaded, normally one.
        criteria: What the spec says about its report: baseline, margins, prices and the like.
        experiment_id: The ID in MLflow, if known.
        current: The arms of the last start; empty if these are all.
        answered: A digest of the content of the stored report.
        start: How the sweep was started last.
        space_size: The number of different configs in its space; None if it is infinite.
        left_blocks: Blocks of earlier starts that the last start did not plan.
    """

    name: str
    generation: int = 1
    run_id: str = ""
    workload: str = ""
    objectives: Mapping[str, Direction] = field(default_factory=dict)
    arms: tuple[Arm, ...] = ()
    impossible: tuple[ImpossibleArm, ...] = ()
    blocks: int = 0
    repeats: int = 1
    expected_trials: int = 0
    trials: tuple[FinishedTrial, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    datasets: tuple[DatasetRecord, ...] = ()
    sampler: str = ""
    seed: int = 0
    state: SweepStatus = "complete"
    criteria: ReportCriteria = field(default_factory=ReportCriteria)
    experiment_id: str = ""
    current: tuple[Arm, ...] = ()
    answered: str = ""
    start: StartCommand = UNKNOWN_START
    space_size: int | None = None
    left_blocks: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        """Return which sweep it is, and how much of it is done."""
        done = f"{len(self.trials)} of {self.expected_trials} trials"
        if failed := sum(trial.status == "failed" for trial in self.trials):
            done += f" ({failed} failed)"
        return f"<SweepRecord {self.label}: {self.state}, {done} on {len(self.arms)} arms>"

    @property
    def label(self) -> str:
        """The name, with the generation if it is not the first: `quickstart#2`."""
        return self.name if self.generation == 1 else f"{self.name}#{self.generation}"

    @property
    def planned_blocks(self) -> frozenset[int]:
        """The blocks of the last start."""
        return frozenset(range(self.blocks)) - self.left_blocks

    @property
    def former(self) -> tuple[Arm, ...]:
        """Arms that the last start did not include, or that were stopped."""
        return tuple(arm for arm in self.arms if self.current and arm not in self.current)

    def with_trials(self, trials: Iterable[FinishedTrial]) -> Self:
        """Return the sweep with these trials; they get its own arms, which are quick to compare."""
        arms = {arm: arm for arm in self.arms}
        with_shared_arms = (
            replace(
                finished, trial=replace(finished.trial, arm=arms.get(finished.arm, finished.arm))
            )
            for finished in trials
        )
        return replace(self, trials=tuple(with_shared_arms))
