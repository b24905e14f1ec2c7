"""The state that earlier starts left, here and in a store that other homes write to."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.trial import Block, FinishedTrial, SweepIdentity, make_trial
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.journal import (
    BlockSuggested,
    Journal,
    JournalState,
    Record,
    SessionStarted,
    SweepOpened,
    TrialFinished,
    read,
)
from tests.building.arms import PORTABLE, XLA
from tests.building.specs import BUILT_IN_WORKLOAD, USER_WORKLOAD, build_spec
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path) as journal:
        yield journal


def merged(
    journal: Journal, here: Sequence[Record], stored: Sequence[FinishedTrial]
) -> JournalState:
    """Return the state after merging, which must be the journal's too."""
    for record in (SweepOpened(IDENTITY, {}), *here):
        journal.append(record)
    resume.merge_stored(journal, stored)
    assert journal.state is not None
    assert read(journal.path.parent) == journal.state
    return journal.state


def ended(*trials: FinishedTrial) -> list[Record]:
    return list(resume.rebuild(trials))


def with_units(block: int, units: int, ended_s: float = 1.8e9) -> FinishedTrial:
    outcome = build_full_trial(block, ended_s=ended_s).outcome
    return FinishedTrial(make_trial(IDENTITY, Block(block, {"units": units}), XLA, 0), outcome)


def test_the_later_of_two_outcomes_counts(journal: Journal) -> None:
    only_here, only_stored = build_full_trial(2), build_full_trial(4)
    later_here, later_stored = (
        build_full_trial(3, ended_s=1.8e9),
        build_full_trial(1, ended_s=1.8e9),
    )
    stored = [later_stored, build_failed_trial(3), only_stored]
    state = merged(journal, ended(build_failed_trial(1), only_here, later_here), stored)
    assert list(state.finished.values()) == [only_here, later_here, only_stored, later_stored]
    assert list(resume.events(state, retry_failed=False))[-1] == later_stored


def test_a_block_without_an_outcome_here_is_the_stores(journal: Journal) -> None:
    first, later = build_full_trial(0), with_units(1, 2)
    here: list[Record] = [
        BlockSuggested(0, first.config, 0.5),
        BlockSuggested(1, {"units": 1}, 1.0),
        BlockSuggested(2, {"units": 3}, 2.0),
        TrialFinished(first),
    ]
    state = merged(journal, here, [first, later])
    events = [state.blocks[0], Block(2, {"units": 3}), first, Block(1, {"units": 2}), later]
    assert list(resume.events(state, retry_failed=False)) == events


def test_a_block_that_was_run_with_two_configs_is_refused(journal: Journal) -> None:
    here, there = build_full_trial(1, PORTABLE), with_units(1, 2)
    with pytest.raises(resume.Incomparable, match=r'block 1 .*"units":33.*"units":2.*fresh=True'):
        merged(journal, ended(here), [here, there])
    assert journal.state is not None
    assert list(journal.state.finished.values()) == [here], "nothing is written"


def test_a_variant_of_an_earlier_name_keeps_its_settings(journal: Journal) -> None:
    def identified(**settings: int) -> tuple[SweepIdentity, SweepSpec]:
        made = build_spec(USER_WORKLOAD, variants=[{"name": "deep", "settings": settings}])
        return resume.identify(made, 1), made

    identity, made = identified(depth=2)
    resume.take_over(journal, None, identity, made)
    arm = replace(PORTABLE, variant=made.arms.variants[0].variant)
    resume.merge_stored(journal, [build_full_trial(0, arm)])
    resume.take_over(journal, None, *identified(depth=2))
    with pytest.raises(resume.Incomparable, match=r'\'deep\'.*{"depth":2}.*{"depth":3}'):
        resume.take_over(journal, None, *identified(depth=3))


def test_a_journal_without_blocks_becomes_that_of_the_stored_sweep(journal: Journal) -> None:
    journal.append(SweepOpened(IDENTITY, {}, "ours"))
    resume.take_over(journal, None, IDENTITY, build_spec(), sweep_id="theirs")
    stored = read(journal.path.parent)
    assert stored is not None and stored.sweep_id == "theirs"
    journal.append(BlockSuggested(0, {"units": 1}, 1.0))
    assert (
        resume.take_over(journal, None, IDENTITY, build_spec(), sweep_id="x").sweep_id == "theirs"
    )


def test_keeping_models_is_no_part_of_the_identity() -> None:
    asked = ["settings.keep=best", "settings.epochs=2"]
    built_in, own = (
        resume.identify(build_spec(base, overrides=asked), 1)
        for base in (BUILT_IN_WORKLOAD, USER_WORKLOAD)
    )
    assert built_in == resume.identify(build_spec(overrides=asked[1:]), 1)
    assert own.settings == {"keep": "best", "epochs": 2}, "a user's own setting of that name"


def test_other_data_make_another_sweep_and_other_trials(journal: Journal) -> None:
    other = replace(IDENTITY, data_digest="1e" * 16, seed=IDENTITY.seed + 1)
    resume.take_over(journal, None, IDENTITY, build_spec())
    with pytest.raises(resume.Incomparable, match=r'data_digest: "(0f)+" -> "(1e)+"') as refused:
        resume.take_over(journal, None, other, build_spec())
    assert "seed: 7 -> 8" in str(refused.value)
    assert "search" not in str(refused.value), "only what differs is named"
    block = Block(0, {"units": 3})
    keys = {make_trial(of, block, XLA, 0).key for of in (IDENTITY, other)}
    assert len(keys) == 2


BEFORE = replace(IDENTITY, code={"mine.py": "1", "gone.py": "2", "same.py": "3"})
NOW = replace(IDENTITY, code={"mine.py": "4", "new.py": "5", "same.py": "3"})


@pytest.mark.parametrize(
    ("trials", "is_refused"),
    [
        ([], False),
        ([build_failed_trial(0)], False),
        ([build_failed_trial(0), build_full_trial(1)], True),
    ],
)
def test_changed_code_is_refused_once_a_trial_has_a_result(
    journal: Journal, trials: list[FinishedTrial], is_refused: bool
) -> None:
    asked = build_spec()
    resume.take_over(journal, None, BEFORE, asked)
    for record in ended(*trials):
        journal.append(record)
    if is_refused:
        files = "removed: gone.py\n  changed: mine.py\n  added: new.py\n"
        with pytest.raises(resume.Incomparable, match=f"{files}.*fresh=True.*same_code=True"):
            resume.take_over(journal, None, NOW, asked)
    state = resume.take_over(journal, None, NOW, asked, same_code=is_refused)
    journal.append(SessionStarted(0.0, 1, "host", "0", 3, 1, [], code=dict(state.identity.code)))
    resume.take_over(journal, None, NOW, asked)
    later = read(journal.path.parent)
    assert later is not None and later.identity.code == NOW.code


def test_the_journal_has_the_spec_that_runs(journal: Journal) -> None:
    pruned = build_spec(settings={"epochs": 8}, objectives={"loss": "minimize"}, pruner="median")
    state = resume.take_over(journal, None, resume.identify(pruned, 1), pruned)
    assert SweepSpec.model_validate(state.spec) == pruned
    assert state.spec["search"]["pruner"]["n_startup_trials"] == 5
