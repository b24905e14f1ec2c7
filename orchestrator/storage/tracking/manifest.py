"""What a driver says when it opens a sweep in the store, and what the store says of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter

from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.records import Direction
from orchestrator.core.trial import Arm, FinishedTrial, ImpossibleArm, SweepIdentity
from orchestrator.storage.tracking.lease import Owner

SweepState: TypeAlias = Literal["running", "complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class SweepOpening:
    """All that the store is told of a sweep before its trials.

    `spec_yaml` is the spec as written, `plan` what will run where and what cannot, as JSON;
    `home` is where the driver keeps the sweep; `criteria` what its report is to decide; `current`
    are those of the arms that the last start that began was to run, all of them where it is empty.
    """

    identity: SweepIdentity
    spec_yaml: str
    plan: Mapping[str, Any]
    objectives: Mapping[str, Direction]
    arms: tuple[Arm, ...]
    impossible: tuple[ImpossibleArm, ...]
    blocks: int
    repeats: int
    owner: Owner
    home: Path
    criteria: ReportCriteria = field(default_factory=ReportCriteria)
    current: tuple[Arm, ...] = ()

    @property
    def running(self) -> tuple[Arm, ...]:
        """The arms that the sweep has now."""
        return self.current or self.arms


@dataclass(frozen=True, slots=True)
class Manifest:
    """The artifact `sweep.json`: what a report or a lost journal is rebuilt from.

    `arms` are those of all starts; `current` those of the last one that began, or all where it is
    empty, as in what earlier versions wrote.
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, ser_json_inf_nan="constants")

    identity: SweepIdentity
    objectives: Mapping[str, Direction]
    arms: tuple[Arm, ...]
    impossible: tuple[ImpossibleArm, ...]
    blocks: int
    repeats: int
    criteria: ReportCriteria
    version: int = 1  # of what its writer knows to do: 2 marks runs written after a table
    current: tuple[Arm, ...] = ()


manifest_adapter: TypeAdapter[Manifest] = TypeAdapter(Manifest)


def manifest_of(opening: SweepOpening) -> Manifest:
    """The part of an opening that is read back."""
    return Manifest(
        opening.identity,
        opening.objectives,
        opening.arms,
        opening.impossible,
        opening.blocks,
        opening.repeats,
        opening.criteria,
        version=3,
        current=opening.current,
    )


@dataclass(frozen=True, slots=True)
class FoundSweep:
    """A sweep's latest generation, as the store has it: enough to go on without a journal."""

    manifest: Manifest
    spec_yaml: str
    state: SweepState
    finished: tuple[FinishedTrial, ...]

    @property
    def identity(self) -> SweepIdentity:
        """Which sweep it is, with its generation."""
        return self.manifest.identity


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """One line of a list of sweeps. `ended_s` is None while it runs."""

    name: str
    generation: int
    run_id: str
    state: SweepState
    workload: str
    started_s: float
    ended_s: float | None
    experiment_id: str
