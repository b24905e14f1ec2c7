"""The state that earlier starts left, here and in a store that other homes write to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.trial import Block, FinishedTrial, make_trial
from orchestrator.storage import resume
from orchestrator.storage.journal import (
    BlockSuggested,
    Journal,
    Record,
    SweepOpened,
    SweepState,
    TrialFinished,
    read,
    replay,
)
from tests.orchestrator.sample_sweeps import IDENTITY, PORTABLE, XLA, failed, finished


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path) as journal:
        yield journal


def agreed(journal: Journal, here: Sequence[Record], stored: Sequence[FinishedTrial]) -> SweepState:
    """The state after agreeing, which must be the journal's too."""
    records: list[Record] = [SweepOpened(IDENTITY, {}), *here]
    for record in records:
        journal.append(record)
    state = resume.merge_stored(journal, records, stored)
    assert replay(read(journal.path.parent)) == state
    return state


def suggested(trial: FinishedTrial) -> BlockSuggested:
    return BlockSuggested(trial.trial.block, trial.trial.config, trial.outcome.started_s)


def with_units(block: int, units: int, ended_s: float = 1.8e9) -> FinishedTrial:
    outcome = finished(block, ended_s=ended_s).outcome
    return FinishedTrial(make_trial(IDENTITY, Block(block, {"units": units}), XLA, 0), outcome)


def test_a_later_outcome_in_the_store_is_taken_over_and_never_overwritten(
    journal: Journal,
) -> None:
    before = failed(1)
    retried = finished(1, ended_s=before.outcome.ended_s + 60)
    state = agreed(journal, [suggested(before), TrialFinished(before)], [retried])
    assert state.finished[before.trial.key] == retried
    assert list(resume.events(state, retry_failed=False)) == [state.blocks[1], retried]
    assert resume.unrecorded_trials(state, [retried]) == []


def test_a_later_outcome_here_and_one_the_store_lacks_are_sent(journal: Journal) -> None:
    before = failed(1)
    retried = finished(1, ended_s=before.outcome.ended_s + 60)
    other = finished(2)
    here: list[Record] = [
        suggested(retried),
        TrialFinished(retried),
        suggested(other),
        TrialFinished(other),
    ]
    state = agreed(journal, here, [before])
    assert resume.unrecorded_trials(state, [before]) == [retried, other]
    assert state.finished[before.trial.key] == retried


def test_what_both_have_is_neither_sent_nor_written(journal: Journal) -> None:
    same = finished(1)
    state = agreed(journal, [suggested(same), TrialFinished(same)], [same])
    assert resume.unrecorded_trials(state, [same]) == []
    assert len(read(journal.path.parent)) == 3


def test_a_block_without_an_outcome_here_is_the_stores(journal: Journal) -> None:
    first, later = finished(0), with_units(1, 2)
    here: list[Record] = [
        suggested(first),
        BlockSuggested(1, {"units": 1}, 1.0),
        BlockSuggested(2, {"units": 3}, 2.0),
        TrialFinished(first),
    ]
    state = agreed(journal, here, [first, later])
    assert state.blocks[1].config == {"units": 2}
    assert list(resume.events(state, retry_failed=False)) == [
        state.blocks[0],
        Block(2, {"units": 3}),
        first,
        Block(1, {"units": 2}),
        later,
    ]


def test_a_block_that_was_run_with_two_configs_is_refused(journal: Journal) -> None:
    here, there = finished(1, PORTABLE), with_units(1, 2)
    with pytest.raises(resume.TwoConfigs, match=r'block 1: .*"units":33.*"units":2.*--fresh'):
        agreed(journal, [suggested(here), TrialFinished(here)], [here, there])
    assert len(read(journal.path.parent)) == 3, "nothing is written"


def test_a_store_with_two_configs_of_a_block_is_refused(journal: Journal) -> None:
    one, other = with_units(1, 2), finished(1, PORTABLE)
    with pytest.raises(resume.TwoConfigs, match="block 1"):
        agreed(journal, [], [one, replace(other)])
