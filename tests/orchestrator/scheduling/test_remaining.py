"""The work that earlier starts leave, and the records of it in journal and store."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.local import describe_sweeps
from orchestrator.core.trial import Block, FinishedTrial, Outcome, make_trial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.node_wait import arms_worth_waiting_for
from orchestrator.scheduling.remaining import RemainingWork, first_records, remaining_work
from orchestrator.spec import parse
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import (
    BlocksEnough,
    BlockSuggested,
    Record,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    SweepState,
    TrialFinished,
    replay,
)
from tests.orchestrator.sample_plans import identity, node
from tests.orchestrator.scheduling.sample_sessions import Held
from tests.orchestrator.scheduling.test_session_rounds import AUTO, paced

ENOUGH = AUTO + "blocks: {interval: 0.05, at_most: 40}\n"


def start(home: Path) -> tuple[Held, RemainingWork, list[Record]]:
    """A driver that has read the journal: what it found there, and what it added."""
    held = Held(SweepFolder(home, "sweep").generation(1), ENOUGH)
    state = held.state()
    work = remaining_work(held.spec, held.plan, state, retry_failed=False)
    added = first_records(work, state)
    for record in added:
        held.journal.append(record)
    return held, work, added


def kill(held: Held, before: str | None = None) -> None:
    """End a driver without a word; if asked to, before it wrote its last record of a kind."""
    held.journal.close()
    lines = held.journal.path.read_bytes().splitlines(keepends=True)
    if before is not None:
        cut = max(number for number, line in enumerate(lines) if before.encode() in line)
        held.journal.path.write_bytes(b"".join(lines[:cut]))


def status_text(home: Path) -> str:
    return describe_sweeps(home, "sweep")


@pytest.mark.parametrize("before", [None, "blocks_enough"])
def test_why_there_are_blocks_enough_is_reported_by_each_session(
    tmp_path: Path, before: str | None
) -> None:
    """Killed with a trial out, after the stop decision was written or just before."""
    held, _, _ = start(tmp_path)
    out = deque(iter(held.session.assign, None))
    while held.blocks.stop_decision is None:
        assignment = out.popleft()
        held.session.finish(assignment, paced(assignment))
        out += iter(held.session.assign, None)
    assert out
    stop_decision = held.blocks.stop_decision
    kill(held, before)
    second, work, added = start(tmp_path)
    assert [record.record for record in added] == ["session_started", "blocks_enough"]
    assert (work.stop_decision, work.plan.auto) == (stop_decision, None)
    begun = len(second.state().blocks)
    assert (work.plan.blocks, work.missing) == (begun, 3 * begun - len(second.state().finished))
    assert f"of {3 * begun} trials ended" in status_text(tmp_path)
    assert f"enough after {stop_decision.blocks} blocks: every speed-up is known" in status_text(
        tmp_path
    )


TWO = """
name: sweep
workload: own.module:run
search: {sampler: random, space: {layers: {low: 1, high: 99}}}
arms: {implementations: [python/a], hardware: [cpu, {class: gpu, wait_s: 60}]}
blocks: {interval: 0.05, at_most: 20}
"""
CPU, GPU = node("a"), node("b", gpus=1)


def earlier(nodes: list[Node], half_width: float | None, text: str = TWO) -> SweepState:
    """Return the state after a start on these nodes that needed seven blocks, by its own rule.

    By the rule of now they are not: the second arm of the pair swings from block to block.
    """
    spec = parse(text, source="spec")
    laid = make_plan(spec, classify(nodes))
    records: list[Record] = [
        SweepOpened(identity(), spec.model_dump(mode="json")),
        SessionStarted(0.0, 1, "host", "0.1", laid.index_count, 1, list(laid.arms), least=6),
    ]
    for index in range(7):
        block = Block(index, {"layers": index + 1})
        records.append(BlockSuggested(index, block.config, 0.0))
        for number, arm in enumerate(laid.arms):
            metrics = {"step_ms": 1.0 + number * (1 + index % 2)}
            outcome = Outcome("complete", 0.0, 1.0, node="a", metrics=metrics)
            records.append(
                TrialFinished(FinishedTrial(make_trial(identity(), block, arm, 0), outcome))
            )
    records += [BlocksEnough(1.0, 7, half_width, "as it was"), SessionEnded(2.0, "complete")]
    state = replay(records)
    assert state is not None
    return state


def left_on(nodes: list[Node], state: SweepState, text: str = TWO) -> RemainingWork:
    spec = parse(text, source="spec")
    laid = make_plan(spec, classify(nodes), "to come")
    return remaining_work(spec, laid, state, retry_failed=False)


def test_over_a_part_of_the_arms_nothing_is_judged() -> None:
    """The driver was killed, and the node with the GPU has left until somebody asks for it."""
    state = replace(earlier([CPU, GPU], None), stop_decision=None, ended=None)
    work = left_on([CPU], state)
    assert (len(work.plan.arms), len(work.plan.awaited)) == (1, 1)
    assert (work.stop_decision, work.plan.blocks, work.missing) == (None, 20, 13)
    assert arms_worth_waiting_for(work.plan, work.history) == work.plan.awaited
    both = left_on([CPU, GPU], state)
    assert (both.stop_decision, both.plan.blocks, both.missing) == (None, 20, 26)


def test_what_was_reported_stands_while_arms_are_awaited_and_nothing_is_added() -> None:
    state = earlier([CPU, GPU], 0.04)
    work = left_on([CPU], state)
    assert work.plan.awaited
    assert arms_worth_waiting_for(work.plan, work.history) == ()
    assert (work.plan.blocks, work.missing, first_records(work, state)) == (7, 0, [])


@pytest.mark.parametrize("half_width", [0.04, None])
def test_a_sweep_that_an_earlier_rule_ended_stays_ended(half_width: float | None) -> None:
    state = earlier([CPU, GPU], half_width)
    work = left_on([CPU, GPU], state)
    assert work.stop_decision is not None
    assert (
        work.stop_decision.blocks,
        work.stop_decision.half_width,
        work.stop_decision.reason,
    ) == ((7, half_width, "as it was"))
    assert (work.plan.auto, work.plan.blocks, work.missing) == (None, 7, 0)
    assert first_records(work, state) == []


@pytest.mark.parametrize(
    ("half_width", "change"),
    [
        (0.04, ("interval: 0.05", "interval: 0.03")),
        (0.04, ("interval: 0.05", "interval: 0.05, at_least: 8")),
        (0.04, ("[python/a]", "[python/a, python/b]")),
        (0.04, ("blocks:", "baseline: python/a on CPU A, 2 CPUs\nblocks:")),
        (0.06, ("at_most: 20", "at_most: 19")),
    ],
)
def test_a_spec_that_asks_for_more_than_was_reported_goes_on(
    half_width: float, change: tuple[str, str]
) -> None:
    changed = TWO.replace(*change)
    work = left_on([CPU, GPU], earlier([CPU, GPU], half_width), changed)
    assert work.stop_decision is None
    assert work.plan.blocks == parse(changed, source="spec").most_blocks
    assert work.missing > 0


@pytest.mark.parametrize(("most", "goes_on"), [(7, False), (20, True)])
def test_the_most_blocks_are_reported_for_as_long_as_they_are_the_most(
    most: int, goes_on: bool
) -> None:
    """The interval of some arm was never known."""
    before = earlier([CPU, GPU], None, TWO.replace("at_most: 20", "at_most: 7"))
    work = left_on([CPU, GPU], before, TWO.replace("at_most: 20", f"at_most: {most}"))
    assert (work.missing > 0) == goes_on
