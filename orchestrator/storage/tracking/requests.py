"""The requests that the driver sends to the recorder process. Plain data; imports no MLflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.tracking.manifest import SweepOpening

EndState: TypeAlias = Literal["complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message to the process: the store, and the process that it must not outlive."""

    tracking_uri: str
    artifact_root: Path | None
    parent_pid: int


@dataclass(frozen=True, slots=True)
class Open:
    """A request for `Writer.open_sweep`; the answer is a list of FinishedTrial."""

    opening: SweepOpening


@dataclass(frozen=True, slots=True)
class Record:
    """A request for `Writer.record`; the answer is a refusal for each trial key."""

    batch: tuple[FinishedTrial, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """A request for `Writer.beat`; the answer is None."""


@dataclass(frozen=True, slots=True)
class Find:
    """A request for `find_sweep`; the answer is a StoredSweep or None."""

    name: str
    trials: bool


@dataclass(frozen=True, slots=True)
class Latest:
    """A request for `latest_generation`; the answer is an int."""

    name: str


@dataclass(frozen=True, slots=True)
class Read:
    """A request for `read_sweep`; the answer is a SweepRecord."""

    name: str
    generation: int | None


@dataclass(frozen=True, slots=True)
class Curves:
    """A request for `read_curves`; the answer is Telemetry by run id."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """A request for `Writer.close`; the answer is None."""

    state: EndState
    texts: Mapping[str, str]
    description: str


Request: TypeAlias = Open | Record | Beat | Find | Latest | Read | Curves | Close
