"""The ledger: what follows from blocks and outcomes alone, in their order."""

import pytest

from orchestrator.core.trial import Block, FinishedTrial
from orchestrator.hardware import classify
from orchestrator.scheduling.ledger import Ledger
from tests.building.hardware import build_node
from tests.building.scheduling import build_ledger, build_plan
from tests.building.trials import build_outcome

LAID = build_plan(classify([build_node("a")]), implementations=2, blocks=3, repeats=2)
FIRST = Block(0, {"units": 1})


def ended(ledger: Ledger, place: int) -> FinishedTrial:
    return FinishedTrial(ledger.trials_of(0)[place], build_outcome())


@pytest.fixture
def ledger() -> Ledger:
    ledger = build_ledger(LAID)
    assert ledger.add_block(FIRST)
    return ledger


def test_trials_are_missing_until_they_have_ended(ledger: Ledger) -> None:
    assert (ledger.count_missing(), ledger.count_complete_blocks()) == (12, 0)
    for place in range(4):
        assert len(ledger.missing_trials(0)) == 4 - place
        ledger.add_outcome(ended(ledger, place))
    assert (ledger.count_missing(), ledger.count_complete_blocks()) == (8, 1)


def test_an_outcome_may_come_before_its_block(ledger: Ledger) -> None:
    late = build_ledger(LAID)
    late.replay([ended(ledger, 0), FIRST])
    assert len(late.missing_trials(0)) == 3
