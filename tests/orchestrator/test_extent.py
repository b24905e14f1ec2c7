"""What a start finds of earlier ones, and tells the journal and the store of it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.extent import Left, first_records, left_to
from orchestrator.hardware import classify
from orchestrator.home import SweepFolder
from orchestrator.journal import Record, SessionStarted, SweepState
from orchestrator.status import describe_sweeps
from orchestrator.trial import Block, make_trial
from tests.orchestrator.laid import identity, node, plan
from tests.orchestrator.test_session_rounds import AUTO, Held, paced, run_until_enough

ENOUGH = AUTO + "blocks: {interval: 0.05, at_most: 40}\n"


def start(home: Path) -> tuple[Held, Left, list[Record]]:
    """A driver that has read the journal: what it found there, and what it added."""
    held = Held(SweepFolder(home, "sweep").generation(1), ENOUGH)
    state = held.state()
    left = left_to(held.spec, held.plan, state, retry_failed=False)
    added = first_records(left, state)
    for record in added:
        held.journal.append(record)
    return held, left, added


def kill(held: Held, before: str | None = None) -> None:
    """End a driver without a word; if asked to, before it wrote its last record of a kind."""
    held.journal.close()
    lines = held.journal.path.read_bytes().splitlines(keepends=True)
    if before is not None:
        cut = max(number for number, line in enumerate(lines) if before.encode() in line)
        held.journal.path.write_bytes(b"".join(lines[:cut]))


def told(home: Path) -> str:
    return describe_sweeps(home, "sweep")


@pytest.mark.parametrize("before", [None, "blocks_enough"])
def test_why_there_are_blocks_enough_is_told_by_each_session(
    tmp_path: Path, before: str | None
) -> None:
    """Killed with a trial out, after it was told that there are enough or just before."""
    held, _, _ = start(tmp_path)
    out = deque(iter(held.session.issue, None))
    while held.blocks.enough is None:
        issue = out.popleft()
        held.session.finish(issue, paced(issue))
        out += iter(held.session.issue, None)
    assert out
    enough = held.blocks.enough
    kill(held, before)
    again, left, added = start(tmp_path)
    assert [each.record for each in added] == ["session_started", "blocks_enough"]
    assert (left.enough, left.plan.auto) == (enough, None)
    begun = len(again.state().blocks)
    assert (left.plan.blocks, left.missing) == (begun, 3 * begun - len(again.state().finished))
    assert f"of {3 * begun} trials ended" in told(tmp_path)
    assert f"enough after {enough.blocks} blocks: every speed-up is known" in told(tmp_path)


def test_what_a_driver_was_killed_before_it_could_tell_is_told_by_the_next(tmp_path: Path) -> None:
    """No trial is missing."""
    held, _, _ = start(tmp_path)
    ran = run_until_enough(held)
    kill(held, "blocks_enough")
    assert "enough after" not in told(tmp_path)
    assert "stopped abruptly" in told(tmp_path)
    again, left, added = start(tmp_path)
    kinds = ["session_started", "blocks_enough", "session_ended"]
    assert [each.record for each in added] == kinds
    assert left.missing == 0
    kill(again)
    assert f"{ran} of {ran} trials ended" in told(tmp_path)
    assert "enough after" in told(tmp_path)
    assert told(tmp_path).startswith("sweep: complete\n")
    assert start(tmp_path)[2] == []


def test_a_first_start_finds_nothing_and_has_all_to_do(tmp_path: Path) -> None:
    held, left, added = start(tmp_path)
    assert [each.record for each in added] == ["session_started"]
    assert (left.past, left.again, left.enough) == ([], {}, None)
    assert left.missing == held.plan.trials == 40 * 3


def test_the_journal_knows_which_trials_a_list_still_wants() -> None:
    laid = replace(plan(classify([node("a")]), blocks=2), passed_over=frozenset({1}))
    other = plan(classify([node("b", cpu_model="CPU B")]))
    left = Left(laid, [], {}, missing=1, enough=None)
    (begun,) = first_records(left, SweepState(identity(), {}))
    assert isinstance(begun, SessionStarted)
    assert (begun.blocks, begun.passed_over) == (3, [1])
    trials = [
        make_trial(identity(), Block(block, {}), arm, repeat)
        for block in range(4)
        for repeat in range(2)
        for arm in (laid.arms[0], other.arms[0])
    ]
    for each in (laid, begun):
        wanted = [(t.block, t.repeat, t.arm) for t in trials if each.wants(t)]
        assert wanted == [(0, 0, laid.arms[0]), (2, 0, laid.arms[0])]
