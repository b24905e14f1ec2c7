"""The records of a sweep's journal, one a line. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter

from orchestrator.core.arms import Arm
from orchestrator.core.trial import Config, FinishedTrial, SweepIdentity, Trial

VERSION = 7
"""The version of the records. Only journals of this version are read."""


@dataclass(frozen=True, slots=True)
class SweepOpened:
    """The first record of each journal: the sweep's identity, and the spec that opened it."""

    record: Literal["sweep_opened"] = field(default="sweep_opened", kw_only=True)
    identity: SweepIdentity
    spec: Mapping[str, Any]
    journal_version: int = VERSION


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The start of a driver; `version` is rnnsweep's, the sizes are the plan's.

    `blocks` is the highest number of blocks, including the earlier blocks that the plan skips
    (`skipped_blocks`). `least` is the lowest number with `blocks: auto`, else None.
    """

    record: Literal["session_started"] = field(default="session_started", kw_only=True)
    at_s: float
    pid: int
    host: str
    version: str
    blocks: int
    repeats: int
    arms: list[Arm]
    journal_version: int = VERSION
    least: int | None = None
    skipped_blocks: list[int] = field(default_factory=list)

    def has_block(self, index: int) -> bool:
        """Return whether the plan had the block of this index."""
        return index < self.blocks and index not in self.skipped_blocks

    def includes(self, trial: Trial) -> bool:
        """Return whether the plan had a trial: arms, blocks and repeats can be fewer now."""
        return (
            self.has_block(trial.block) and trial.repeat < self.repeats and trial.arm in self.arms
        )


@dataclass(frozen=True, slots=True)
class BlockSuggested:
    """A config that the sampler suggested."""

    record: Literal["block_suggested"] = field(default="block_suggested", kw_only=True)
    block: int
    config: Config
    at_s: float


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """The start of an attempt. A hint for `status`: the only record written without fsync."""

    record: Literal["attempt_started"] = field(default="attempt_started", kw_only=True)
    trial_key: str
    attempt: int
    at_s: float
    block: int
    arm: Arm
    repeat: int


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """The end of a trial, with any outcome. Of several with one key the last one counts."""

    record: Literal["trial_finished"] = field(default="trial_finished", kw_only=True)
    finished: FinishedTrial


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """The end of an interleaved round: all of its trials, or none where the driver was killed."""

    record: Literal["round_finished"] = field(default="round_finished", kw_only=True)
    finished: list[FinishedTrial]


@dataclass(frozen=True, slots=True)
class BlocksEnough:
    """The decision to suggest no more blocks. A hint for people: it follows from the outcomes.

    `blocks` were complete then; `half_width` is that of the widest speed-up's interval, as a share.
    """

    record: Literal["blocks_enough"] = field(default="blocks_enough", kw_only=True)
    at_s: float
    blocks: int
    half_width: float | None
    why: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The regular end of a driver; `state` as in the tracking store."""

    record: Literal["session_ended"] = field(default="session_ended", kw_only=True)
    at_s: float
    state: Literal["complete", "stopped", "failed"]


Record: TypeAlias = (
    SweepOpened
    | SessionStarted
    | BlockSuggested
    | AttemptStarted
    | TrialFinished
    | RoundFinished
    | BlocksEnough
    | SessionEnded
)

line_adapter: TypeAdapter[Record] = TypeAdapter(
    Annotated[Record, Field(discriminator="record")],
    config=ConfigDict(strict=True, extra="forbid", ser_json_inf_nan="constants"),
)
"""Reads and writes one line, strictly: an unknown key or a text for a number is refused."""
