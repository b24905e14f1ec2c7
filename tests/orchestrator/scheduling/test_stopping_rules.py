"""A stopping rule from elsewhere: a sweep that it ends, killed at any moment, ends as it would."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.cli.local import describe_sweep
from orchestrator.core.stopping import StopDecision, StoppingRule
from orchestrator.core.trial import FinishedTrial
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.remaining import first_records
from orchestrator.scheduling.stopping_rules import stopping_rules
from orchestrator.spec import SweepSpec
from orchestrator.storage.home import SweepFolder
from tests.building.scheduling import build_outcome_of
from tests.building.sessions import SampleSession
from tests.building.specs import USER_WORKLOAD, build_spec_text

SPEC = build_spec_text(
    USER_WORKLOAD,
    name="mine",
    implementations=["python/a", "python/b"],
    configs=10,
    space={"layers": {"low": 1, "high": 99}},
)


class EnergyUsed(StoppingRule):
    name = "energy"

    def __init__(self, budget_j: float) -> None:
        self._budget_j, self._used_j = budget_j, 0.0

    def add_outcome(self, finished: FinishedTrial) -> StopDecision | None:
        self._used_j += finished.metrics.get("energy_j", 0.0)
        if self._used_j < self._budget_j:
            return None
        return StopDecision(f"{self._used_j:g} J are used", self._used_j)


def energy_too(spec: SweepSpec, plan: Plan) -> Sequence[StoppingRule]:
    return [*stopping_rules(spec, plan), EnergyUsed(55.0)]


def start(folder: Path) -> SampleSession:
    """Begin a session as a start does: with its first records in the journal."""
    sample = SampleSession(folder, SPEC, rules=energy_too)
    for record in first_records(sample.work(), sample.state()):
        sample.journal.append(record)
    return sample


def run(sample: SampleSession, trials: int = 1_000) -> None:
    while trials and not sample.dispatcher.done:
        assignment = sample.assign()
        sample.session.finish(assignment, build_outcome_of(assignment, energy_j=10.0))
        trials -= 1


@pytest.mark.parametrize("trials_before_the_kill", range(8))
def test_a_sweep_ends_by_a_rule_from_elsewhere_killed_or_not(
    tmp_path: Path, trials_before_the_kill: int
) -> None:
    folder = SweepFolder(tmp_path, "mine").generation(1)
    first = start(folder)
    assert first.work().plan.ending == "open"
    run(first, trials_before_the_kill)
    first.journal.close()
    second = start(folder)
    run(second)
    state = second.state()
    assert len(state.finished) == 6, "the sixth trial reaches 55 J, and ends the third block"
    decision = StopDecision("60 J are used", 60.0, 3, "energy")
    assert state.stop_decision == decision
    assert "enough after 3 blocks: 60 J are used" in describe_sweep(tmp_path, "mine")
    work = second.work()
    assert (work.missing, work.stop_decision, work.plan.ending) == (0, decision, "decided")


def test_without_its_rule_a_sweep_continues(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path, "mine").generation(1)
    first = start(folder)
    run(first)
    first.journal.close()
    second = SampleSession(folder, SPEC)
    assert (second.work().missing, second.work().plan.ending) == (14, "fixed")
