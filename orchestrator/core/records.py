"""What a report is made of: a sweep's trials as read back from the tracking store. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.trial import (
    Arm,
    Config,
    DatasetRecord,
    EpochRecord,
    ImpossibleArm,
    Kernel,
    OutcomeStatus,
)

Direction = Literal["minimize", "maximize"]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial as the store has it. `run_id` makes every number traceable.

    `notes` are those of its telemetry: what its energy is that of, by what it was disturbed, ….
    Times are seconds since the epoch (UTC), 0 where they are not known.
    """

    run_id: str
    trial_key: str
    block: int
    config: Config
    arm: Arm
    repeat: int
    status: OutcomeStatus
    metrics: Mapping[str, float] = field(default_factory=dict)
    kernel: Kernel | None = None
    failure: str = ""
    node: str = ""
    trainer_trials: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)
    epochs: tuple[EpochRecord, ...] = ()
    started_s: float = 0.0
    ended_s: float = 0.0
    attempt: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """A sweep as the store has it: its plan, and the trials that have ended so far.

    `arms` are the arms that can run, in the order of the spec; the first is the default
    baseline. `current` are those that the last start was to run, all of them where it is empty.
    `expected_trials` counts blocks x arms x repeats, and of the other arms what they have done.
    `settings` are what all trials share, defaults included; `datasets` what trainers loaded: one,
    if all is well; `criteria` what the spec asks of the report; `experiment_id` is MLflow's, ""
    where it is not known.
    """

    name: str
    generation: int
    run_id: str
    workload: str
    objectives: Mapping[str, Direction]
    arms: tuple[Arm, ...]
    impossible: tuple[ImpossibleArm, ...]
    blocks: int
    repeats: int
    expected_trials: int
    trials: tuple[TrialRecord, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    datasets: tuple[DatasetRecord, ...] = ()
    sampler: str = ""
    seed: int = 0
    state: Literal["running", "complete", "stopped", "failed"] = "complete"
    criteria: ReportCriteria = field(default_factory=ReportCriteria)
    experiment_id: str = ""
    current: tuple[Arm, ...] = ()

    @property
    def former(self) -> tuple[Arm, ...]:
        """The arms of earlier starts that the last one was not to run."""
        return tuple(arm for arm in self.arms if self.current and arm not in self.current)
