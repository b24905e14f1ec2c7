"""What the driver asks of the recorder process: a class for each call, with the type of its result.

`Recorder` makes the calls. They cross a pipe, and the process performs them with its `Writer`.
"""

# ruff: noqa: D101, D102  (the writer's methods describe them)

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from orchestrator.core.records import EndState, SweepRecord
from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.tracking.stored_records import (
    Answer,
    FoundSweep,
    StoreDifferences,
    SweepOpening,
)

if TYPE_CHECKING:
    from orchestrator.storage.tracking.writer import Writer

CallResult = TypeVar("CallResult")


class RecorderCall(ABC, Generic[CallResult]):
    """A call of a writer's method."""

    @abstractmethod
    def perform(self, writer: Writer) -> CallResult:
        """Call the method in the recorder process; return its result, or raise its error."""


@dataclass(frozen=True, slots=True)
class FindSweep(RecorderCall[FoundSweep]):
    name: str
    fresh: bool

    def perform(self, writer: Writer) -> FoundSweep:
        return writer.find(self.name, fresh=self.fresh)


@dataclass(frozen=True, slots=True)
class OpenSweep(RecorderCall[StoreDifferences]):
    opening: SweepOpening
    had: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    has_claimed: bool = False

    def perform(self, writer: Writer) -> StoreDifferences:
        return writer.open(self.opening, self.had, has_claimed=self.has_claimed)


@dataclass(frozen=True, slots=True)
class ReadSweep(RecorderCall[tuple[SweepRecord, Mapping[str, str]]]):
    def perform(self, writer: Writer) -> tuple[SweepRecord, Mapping[str, str]]:
        return writer.read()


@dataclass(frozen=True, slots=True)
class RecordTrials(RecorderCall[Mapping[str, str]]):
    batch: tuple[FinishedTrial, ...]

    def perform(self, writer: Writer) -> Mapping[str, str]:
        return writer.record(self.batch)


@dataclass(frozen=True, slots=True)
class CloseSweep(RecorderCall[None]):
    state: EndState
    texts: Mapping[str, str]
    answer: Answer | None

    def perform(self, writer: Writer) -> None:
        writer.close(self.state, self.texts, self.answer)


@dataclass(frozen=True, slots=True)
class LogModel(RecorderCall[None]):
    run_id: str
    packed: Path

    def perform(self, writer: Writer) -> None:
        writer.log_model(self.run_id, self.packed)
