"""What the recorder asks of its process. Plain data; imports no MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.tracking.manifest import SweepOpening


@dataclass(frozen=True, slots=True)
class Open:
    """`Tracker.open_sweep`; answered by a list of FinishedTrial."""

    opening: SweepOpening


@dataclass(frozen=True, slots=True)
class Record:
    """`Tracker.record`; answered by what the store refuses, by trial key."""

    batch: tuple[FinishedTrial, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """`Tracker.beat`; answered by None."""


@dataclass(frozen=True, slots=True)
class Find:
    """`find_sweep`; answered by a FoundSweep or None."""

    name: str
    trials: bool


@dataclass(frozen=True, slots=True)
class Read:
    """`read_sweep`; answered by a SweepRecord."""

    name: str
    generation: int | None


@dataclass(frozen=True, slots=True)
class Curves:
    """`read_curves`; answered by Telemetry by run id."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """`Tracker.close`; answered by None."""

    state: Literal["complete", "stopped", "failed"]
    texts: Mapping[str, str]
    description: str


Request: TypeAlias = Open | Record | Beat | Find | Read | Curves | Close


@dataclass(frozen=True, slots=True)
class Service:
    """What the process is started with: the store, and the process that it must not outlive."""

    tracking_uri: str
    artifact_root: Path | None
    parent_pid: int
