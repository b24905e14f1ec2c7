"""A journal's records folded into what is known of the sweep, and a lost journal made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.core.rounds import edition, stands
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
    """What a sweep's records add up to.

    `blocks` and `finished` are in the order of suggestion and of ending; `order` has both in one
    sequence, which is what a sampler is replayed from. `attempts` counts the attempts that were
    started, per trial key. `before` has the last complete outcome of trials that were done again
    since. `ended` is None while a session runs, or where it was killed; `stop_decision`
    tells when and why the latest session asked for no more blocks.
    """

    identity: SweepIdentity
    spec: Mapping[str, Any]
    sessions: list[SessionStarted] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    finished: dict[str, FinishedTrial] = field(default_factory=dict)
    before: dict[str, FinishedTrial] = field(default_factory=dict)
    attempts: dict[str, AttemptStarted] = field(default_factory=dict)
    order: list[BlockSuggested | TrialFinished] = field(default_factory=list)
    ended: SessionEnded | None = None
    stop_decision: BlocksEnough | None = None


def replay(records: Iterable[Record]) -> SweepState | None:
    """Fold records, in their order; None where there are none.

    A trial that ended twice (`--retry-failed`) counts once, with its last outcome, at its last
    place in the order; so does a block that was suggested twice, under two homes. The trials of a
    round end one after another, in its order.

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
                for each in members:
                    _finish(state, each)
            case BlocksEnough():
                stop_decision = record
            case SessionEnded():
                ended = record
    return state if state is None else _settled(state, ended, stop_decision)


def _finish(state: SweepState, finished: FinishedTrial) -> None:
    key = finished.trial.key
    last = state.finished.pop(key, None)
    if stands(finished.outcome):
        state.before.pop(key, None)
    elif last is not None and last.outcome.status == "complete":
        state.before[key] = last
    state.finished[key] = finished
    state.order.append(TrialFinished(finished))


def rebuild(
    identity: SweepIdentity, spec: Mapping[str, Any], finished: Sequence[FinishedTrial]
) -> list[Record]:
    """The records of a journal that was lost, from the trials that the tracking store has.

    A block is suggested just before its first trial ended; a block none of whose trials had
    ended is not known to the store and is suggested anew.
    """
    records: list[Record] = [SweepOpened(identity, spec)]
    configs: dict[int, Config] = {}
    for each in sorted(finished, key=lambda each: edition(each.outcome)):
        if each.trial.block not in configs:
            configs[each.trial.block] = each.trial.config
            records.append(
                BlockSuggested(each.trial.block, each.trial.config, each.outcome.started_s)
            )
        records.append(TrialFinished(each))
    return records


def _settled(
    state: SweepState, ended: SessionEnded | None, stop_decision: BlocksEnough | None
) -> SweepState:
    """With what is stale out of the order: the sampler is told of each block and trial once."""
    suggested = {each.block: each for each in state.order if isinstance(each, BlockSuggested)}
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
        state.before,
        state.attempts,
        order,
        ended,
        stop_decision,
    )
