"""What the lines of a sweep's journal say. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter

from orchestrator.core.trial import Arm, Config, FinishedTrial, SweepIdentity, Trial

VERSION = 6
"""The records' version. It is raised when an older rnnsweep could not read what is written."""


@dataclass(frozen=True, slots=True)
class SweepOpened:
    """Always the first record: which sweep this is, and the spec that opened it."""

    record: Literal["sweep_opened"] = field(default="sweep_opened", kw_only=True)
    identity: SweepIdentity
    spec: Mapping[str, Any]
    journal_version: int = VERSION


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """A driver began to work on the sweep; `version` is rnnsweep's, the sizes are the plan's.

    `blocks` is the plan's extent: earlier blocks that it passes over, `skipped_blocks`, are among
    them. `least` is given where blocks come until there are enough: so many at least, and `blocks`
    at most.
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
        """Whether the block of this index was one of the plan's."""
        return index < self.blocks and index not in self.skipped_blocks

    def includes(self, trial: Trial) -> bool:
        """Whether a trial was one of the plan's: arms, blocks and repeats can be fewer now."""
        return (
            self.has_block(trial.block) and trial.repeat < self.repeats and trial.arm in self.arms
        )


@dataclass(frozen=True, slots=True)
class BlockSuggested:
    """The sampler gave a config."""

    record: Literal["block_suggested"] = field(default="block_suggested", kw_only=True)
    block: int
    config: Config
    at_s: float


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A trial was given to a worker. A hint for `status`: the only record written without fsync."""

    record: Literal["attempt_started"] = field(default="attempt_started", kw_only=True)
    trial_key: str
    attempt: int
    at_s: float
    block: int
    arm: Arm
    repeat: int


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """A trial ended, however it ended. Of several with one key the last one counts."""

    record: Literal["trial_finished"] = field(default="trial_finished", kw_only=True)
    finished: FinishedTrial


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """Trials that took turns ended together: all of them, or none where the driver was killed."""

    record: Literal["round_finished"] = field(default="round_finished", kw_only=True)
    finished: list[FinishedTrial]


@dataclass(frozen=True, slots=True)
class BlocksEnough:
    """No more blocks are asked for. A hint for people: it follows from the outcomes.

    `blocks` were complete then; `half_width` is that of the widest speed-up's interval, as a share.
    """

    record: Literal["blocks_enough"] = field(default="blocks_enough", kw_only=True)
    at_s: float
    blocks: int
    half_width: float | None
    why: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """A driver left in good order; `state` as in the tracking store."""

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
