"""A sweep of listed configs that is stopped, and resumes with the same list or with another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.trial import Block, Config, FinishedTrial
from orchestrator.hardware import classify
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.blocks import Blocks
from orchestrator.scheduling.sampler import Suggester, Suggestions
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.journal import BlockSuggested, Journal, TrialFinished
from tests.orchestrator.sample_plans import complete, failed, node, plan
from tests.orchestrator.sample_specs import OWN, spec

HARDWARE = classify([node("a"), node("b", cpu_model="CPU B")])
Events = list[Block | FinishedTrial]


def config(number: int) -> Config:
    return {"units": number, "layers": 1}


def spec_of(numbers: Sequence[int]) -> SweepSpec:
    return spec(OWN, sampler=None, space=None, configs=[config(number) for number in numbers])


def plan_of(spec: SweepSpec) -> Plan:
    laid = plan(HARDWARE, implementations=1, blocks=spec.search.count())
    return replace(laid, listed=spec.search.listed)


def work(spec: SweepSpec, history: Events, *, trials: int = 1_000) -> Events:
    """One start of the sweep after those of `history`, killed after so many trials: what it did."""
    laid = plan_of(spec).resumed_from(history)
    suggestions = Suggestions(laid, Suggester(spec.search, spec.seed), {})
    blocks = Blocks(resume.identify(spec, 1), laid, make_lanes(laid), suggestions)
    blocks.restore(history)
    done: Events = []
    while trials and not blocks.done:
        assignment, new = blocks.next() or (None, None)
        assert assignment is not None
        done += [new] if new else []
        outcome = failed() if trials % 3 == 0 else complete()
        blocks.finish(assignment, outcome)
        done.append(FinishedTrial(assignment.trial, outcome))
        trials -= 1
    return done


def units(events: Events) -> list[tuple[int, int]]:
    """The index and units of each block that was suggested."""
    return [
        (event.index, int(event.config["units"])) for event in events if isinstance(event, Block)
    ]


def trials(events: Events) -> list[FinishedTrial]:
    return [event for event in events if isinstance(event, FinishedTrial)]


@settings(deadline=None, max_examples=40)
@given(
    lists=st.lists(st.lists(st.integers(0, 5), min_size=1, unique=True), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 12), min_size=4, max_size=4),
)
def test_the_last_list_is_run_whole_and_once_whatever_lists_came_before(
    lists: list[list[int]], cuts: list[int]
) -> None:
    history: Events = []
    for numbers, cut in zip(lists[:-1], cuts, strict=False):
        history += work(spec_of(numbers), history, trials=cut)
    last = spec_of(lists[-1])
    laid = plan_of(last).resumed_from(history)
    missing = laid.trials - resume.count_finished(resume.identify(last, 1), laid, history)
    new = work(last, history)
    assert len(trials(new)) == missing
    everything = [*history, *new]
    assert len({trial.key for trial in trials(everything)}) == len(trials(everything))
    assert {trial.config["units"] for trial in trials(everything)} >= set(lists[-1])
    blocks = units(everything)
    assert len({index for index, _ in blocks}) == len({number for _, number in blocks})
    assert work(last, everything) == []


def test_the_journal_of_a_list_takes_another_list(tmp_path: Path) -> None:
    before, longer = spec_of([1, 2]), spec_of([2, 3])
    with Journal(tmp_path) as journal:
        resume.take_over(journal, None, resume.identify(before, 1), before)
        for record in work(before, []):
            if isinstance(record, FinishedTrial):
                journal.append(TrialFinished(record))
            else:
                journal.append(BlockSuggested(record.index, record.config, 1.0))
    with Journal(tmp_path) as journal:
        state = resume.take_over(journal, None, resume.identify(longer, 1), longer)
        assert [*state.blocks.values()] == [Block(0, config(1)), Block(1, config(2))]
        history = list(resume.events(state, retry_failed=False))
        assert units(work(longer, history)) == [(2, 3)]
