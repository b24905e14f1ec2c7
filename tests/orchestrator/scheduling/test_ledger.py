"""The ledger: what follows from blocks and outcomes alone, in their order."""

from dataclasses import replace

import pytest

from orchestrator.core.failures import FailureLimit
from orchestrator.core.trial import Block, FinishedTrial, Outcome
from orchestrator.hardware import classify
from orchestrator.scheduling.ledger import Ledger
from tests.building.hardware import build_node
from tests.building.scheduling import build_ledger, build_plan
from tests.building.trials import build_failed_outcome, build_outcome

LAID = build_plan(classify([build_node("a")]), implementations=2, blocks=3, repeats=2)
FIRST = Block(0, {"units": 1})


def ended(ledger: Ledger, place: int, outcome: Outcome | None = None) -> FinishedTrial:
    return FinishedTrial(ledger.trials_of(0)[place], outcome or build_outcome())


@pytest.fixture
def ledger() -> Ledger:
    ledger = build_ledger(LAID, FailureLimit(2))
    assert ledger.add_block(FIRST)
    return ledger


def test_trials_are_missing_until_they_have_ended(ledger: Ledger) -> None:
    assert (ledger.count_missing(), ledger.count_complete_blocks()) == (12, 0)
    for place in range(4):
        assert len(ledger.missing_trials(0)) == 4 - place
        ledger.add_outcome(ended(ledger, place))
    assert (ledger.count_missing(), ledger.count_complete_blocks()) == (8, 1)


def test_a_pruned_block_misses_nothing(ledger: Ledger) -> None:
    ledger.add_outcome(ended(ledger, 0, replace(build_outcome(), status="pruned")))
    assert (ledger.missing_trials(0), ledger.pruned, ledger.count_missing()) == ([], {0}, 8)


def test_a_stopped_arm_misses_nothing(ledger: Ledger) -> None:
    arm = ledger.trials_of(0)[0].arm
    places = [place for place, trial in enumerate(ledger.trials_of(0)) if trial.arm == arm]
    stops = [ledger.add_outcome(ended(ledger, place, build_failed_outcome())) for place in places]
    assert stops == [False, True]
    assert ledger.running_arms == tuple(other for other in LAID.arms if other != arm)
    assert {trial.arm for trial in ledger.missing_trials(0)} == {*ledger.running_arms}
    assert ledger.count_missing() == 6


def test_a_block_that_the_plan_has_no_more_is_ignored(ledger: Ledger) -> None:
    assert not ledger.add_block(Block(3, {"units": 4}))
    assert list(ledger.blocks) == [0]


def test_an_outcome_may_come_before_its_block(ledger: Ledger) -> None:
    late = build_ledger(LAID)
    late.replay([ended(ledger, 0), FIRST])
    assert len(late.missing_trials(0)) == 3
