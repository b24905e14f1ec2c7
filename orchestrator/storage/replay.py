"""The state of a sweep from the records of its journal, and a lost journal rebuilt from trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.trial import Block, Config, FinishedTrial, SweepIdentity
from orchestrator.storage.journal_records import (
    AttemptStarted,
    BlocksEnough,
    BlockSuggested,
    Record,
    RoundFinished,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    TrialFinished,
)


@dataclass(frozen=True, slots=True)
class SweepState:
    """The state of a sweep.

    `blocks` and `finished` are in the order of suggestion and of ending. `order` has both in one
    sequence, from which a sampler is replayed. `attempts` has the latest attempt that was started,
    by trial key. `ended` is None while a session runs, or where it was killed. `stop_decision` is
    that of the latest session, if it suggested no more blocks.
    """

    identity: SweepIdentity
    spec: Mapping[str, Any]
    sessions: list[SessionStarted] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    attempts: dict[str, AttemptStarted] = field(default_factory=dict)
    order: list[BlockSuggested | TrialFinished] = field(default_factory=list)
    ended: SessionEnded | None = None
    stop_decision: BlocksEnough | None = None


def replay(records: Iterable[Record]) -> SweepState | None:
    """Return the state after these records; None where there are none.

    A trial that ended twice (`--retry-failed`) counts once, with its last outcome at its last
    position. So does a block that was suggested twice, under two homes. The trials of a round end
    one after another, in its order.

    Raises:
        ValueError: the first record is not `SweepOpened`.
    """
    state: SweepState | None = None
    ended: SessionEnded | None = None
    stop_decision: BlocksEnough | None = None
    for record in records:
        if isinstance(record, SweepOpened):
            state = SweepState(record.identity, record.spec)
            continue
        if state is None:
            raise ValueError(f"expected sweep_opened as the first record, received {record.record}")
        match record:
            case SessionStarted():
                state.sessions.append(record)
                ended, stop_decision = None, None
            case BlockSuggested(block=index, config=config):
                state.blocks.pop(index, None)
                state.blocks[index] = Block(index, config)
                state.order.append(record)
            case AttemptStarted(trial_key=key):
                state.attempts[key] = record
            case TrialFinished(finished=finished):
                _finish(state, finished)
            case RoundFinished(finished=members):
                for member in members:
                    _finish(state, member)
            case BlocksEnough():
                stop_decision = record
            case SessionEnded():
                ended = record
    return state if state is None else _settled(state, ended, stop_decision)


def _finish(state: SweepState, finished: FinishedTrial) -> None:
    state.finished.pop(finished.key, None)
    state.finished[finished.key] = finished
    state.order.append(TrialFinished(finished))


def rebuild(
    identity: SweepIdentity, spec: Mapping[str, Any], finished: Sequence[FinishedTrial]
) -> list[Record]:
    """Return the records of a lost journal, from the trials that the tracking store has.

    A block is suggested just before its first trial ended. The store does not have a block without
    an ended trial: the sampler suggests it again.
    """
    records: list[Record] = [SweepOpened(identity, spec)]
    configs: dict[int, Config] = {}
    for trial in sorted(finished, key=lambda trial: trial.ended_s):
        if trial.block not in configs:
            configs[trial.block] = trial.config
            records.append(BlockSuggested(trial.block, trial.config, trial.outcome.started_s))
        records.append(TrialFinished(trial))
    return records


def _settled(
    state: SweepState, ended: SessionEnded | None, stop_decision: BlocksEnough | None
) -> SweepState:
    """Return the state without stale events: the sampler sees each block and trial once."""
    suggested = {
        record.block: record for record in state.order if isinstance(record, BlockSuggested)
    }
    order = [
        record
        for record in state.order
        if (
            suggested[record.block] is record
            if isinstance(record, BlockSuggested)
            else state.finished[record.finished.trial.key] is record.finished
        )
    ]
    return SweepState(
        state.identity,
        state.spec,
        state.sessions,
        state.blocks,
        state.finished,
        state.attempts,
        order,
        ended,
        stop_decision,
    )
