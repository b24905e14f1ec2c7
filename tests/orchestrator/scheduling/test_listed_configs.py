"""A sweep of a list or a grid that is stopped, and resumes with the same configs or with others."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.trial import Block, FinishedTrial
from orchestrator.hardware import classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.sampling.samplers import Qmc
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.input_changes import input_changes
from tests.building.hardware import build_node
from tests.building.scheduling import build_plan
from tests.building.specs import USER_WORKLOAD, build_spec
from tests.building.trials import build_failed_outcome, build_outcome

HARDWARE = classify([build_node("a"), build_node("b", cpu_model="CPU B")])
Events = list[Block | FinishedTrial]


def spec_of(numbers: Sequence[int], sampler: str = "list") -> SweepSpec:
    if sampler != "list":
        return build_spec(
            USER_WORKLOAD, sampler=sampler, configs=None, space={"units": list(numbers)}
        )
    configs = [{"units": number, "layers": 1} for number in numbers]
    return build_spec(USER_WORKLOAD, sampler=None, space=None, configs=configs)


def plan_of(spec: SweepSpec) -> Plan:
    laid = build_plan(HARDWARE, implementations=1, blocks=spec.search.count())
    return replace(laid, listed=spec.search.points)


def work(spec: SweepSpec, history: Events, *, trials: int = 1_000) -> Events:
    """Start the sweep once more after `history`; return what it did until killed after so many."""
    laid = plan_of(spec).resumed_from(history)
    ledger, source = Ledger(resume.identify(spec, 1), laid), Suggester(spec.search, spec.seed)
    dispatcher = Dispatcher.begin(ledger, source, {}, make_lanes(laid))
    dispatcher.restore(history)
    done: Events = []
    while trials and not dispatcher.done:
        handed_out = dispatcher.next()
        assert handed_out is not None
        assignment, new = handed_out
        done += new
        outcome = build_failed_outcome() if trials % 3 == 0 else build_outcome()
        dispatcher.finish(assignment, outcome)
        done += [FinishedTrial(trial, outcome) for trial in assignment.trials]
        trials -= 1
    return done


@settings(deadline=None, max_examples=40)
@given(
    sampler=st.sampled_from(["list", "grid"]),
    lists=st.lists(st.lists(st.integers(0, 5), min_size=1, unique=True), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 12), min_size=4, max_size=4),
)
def test_the_last_list_is_run_whole_and_once_whatever_lists_came_before(
    sampler: str, lists: list[list[int]], cuts: list[int]
) -> None:
    history: Events = []
    for numbers, cut in zip(lists[:-1], cuts, strict=False):
        history += work(spec_of(numbers, sampler), history, trials=cut)
    last = spec_of(lists[-1], sampler)
    identity = resume.identify(last, 1)
    first = resume.identify(spec_of(lists[0], sampler), 1)
    assert not input_changes(identity, first), "its journal takes another list"
    laid = plan_of(last).resumed_from(history)
    missing = laid.count_missing(event for event in history if isinstance(event, FinishedTrial))
    new = work(last, history)
    everything = [*history, *new]
    trials = [event for event in everything if isinstance(event, FinishedTrial)]
    units = {event.index: event.config["units"] for event in everything if isinstance(event, Block)}
    assert sum(isinstance(event, FinishedTrial) for event in new) == missing
    assert len({trial.key for trial in trials}) == len(trials)
    assert {trial.config["units"] for trial in trials} >= set(lists[-1])
    assert len(units) == len(set(units.values()))
    assert work(last, everything) == []


def test_a_sampler_of_another_name_may_run_the_whole_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Qmc, "configs_from", "space")
    before, after = spec_of([1, 2], "qmc"), spec_of([2, 3], "qmc")
    ran = [event for event in work(before, []) if isinstance(event, Block)]
    assert {block.config["units"] for block in ran} == {1, 2} and len(ran) == 2
    assert input_changes(resume.identify(before, 1), resume.identify(after, 1)) == []
