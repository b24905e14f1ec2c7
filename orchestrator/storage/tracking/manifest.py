"""The description of a sweep that a driver writes to the store, and the one that is read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter

from orchestrator.core.arms import Arm
from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.records import Direction
from orchestrator.core.trial import FinishedTrial, ImpossibleArm, SweepIdentity
from orchestrator.storage.tracking.errors import WrongVersion
from orchestrator.storage.tracking.lease import Owner

VERSION = 3

SweepState: TypeAlias = Literal["running", "complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class SweepOpening:
    """All that the store gets of a sweep before its trials.

    `spec_yaml` is the spec as written, `plan` the plan of trials as JSON, `home` the folder where
    the driver keeps the sweep. The rest is as in `Manifest`.
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
        """The arms that the last start was to run."""
        return self.current or self.arms


@dataclass(frozen=True, slots=True)
class Manifest:
    """The artifact `sweep.json`, from which a report or a lost journal is rebuilt.

    `arms` are those of all starts. `current` are those that the last start that began was to run,
    all of them where it is empty. `criteria` are what the report has to decide by.
    """

    __pydantic_config__: ClassVar = ConfigDict(strict=True, ser_json_inf_nan="constants")

    identity: SweepIdentity
    objectives: Mapping[str, Direction]
    arms: tuple[Arm, ...]
    impossible: tuple[ImpossibleArm, ...]
    blocks: int
    repeats: int
    criteria: ReportCriteria
    current: tuple[Arm, ...] = ()
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class _Versioned:
    version: Any = None


manifest_adapter: TypeAdapter[Manifest] = TypeAdapter(Manifest)
_versioned: TypeAdapter[_Versioned] = TypeAdapter(_Versioned)


def manifest_of(opening: SweepOpening) -> Manifest:
    """Return the part of an opening that is read back."""
    return Manifest(
        opening.identity,
        opening.objectives,
        opening.arms,
        opening.impossible,
        opening.blocks,
        opening.repeats,
        opening.criteria,
        opening.current,
    )


def read_manifest_text(text: str, place: str) -> Manifest:
    """Return the manifest in a text; `place` is its address, for messages.

    Raises:
        WrongVersion: another version of rnnsweep wrote it.
        ValidationError: it is damaged.
    """
    version = _versioned.validate_json(text).version
    if version != VERSION:
        raise WrongVersion(place, "a sweep's manifest", VERSION, version)
    return manifest_adapter.validate_json(text)


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """The latest generation of a sweep in the store: enough to resume without a journal."""

    manifest: Manifest
    spec_yaml: str
    state: SweepState
    finished: tuple[FinishedTrial, ...]

    @property
    def identity(self) -> SweepIdentity:
        """The identity of the sweep, with its generation."""
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
