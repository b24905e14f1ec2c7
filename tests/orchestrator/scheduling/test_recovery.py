"""Workers and nodes that are lost, nodes that come. No Ray: a double lists the nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.hardware import Node
from orchestrator.scheduling.lane_queue import Assignment
from tests.orchestrator.sample_plans import node
from tests.orchestrator.sample_specs import OWN, spec_text
from tests.orchestrator.scheduling.sample_sessions import Held

SIX = {
    **OWN,
    "configs": 6,
    "space": {"layers": [1, 2, 3, 4, 5, 6]},
    "limits": {"attempts": 2, "preemptions": 2},
}
SPEC = spec_text(SIX)
A, B, OTHER = node("a"), node("b"), node("c", cpu_model="CPU B")
COMPLETE = Outcome("complete", 0.0, 1.0)
CRASHED = Outcome("failed", 0.0, 1.0, failure=FailureRecord("crash", "gone"))


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path, SPEC, (A, B, OTHER))


def run_all(held: Held) -> dict[str, int]:
    """Complete all that can run; return how many trials each node ran."""
    ran: Counter[str] = Counter()
    while assignments := held.assignments():
        for assignment in assignments:
            held.session.finish(assignment, COMPLETE)
            held.recovery.ended(assignment, COMPLETE)
            ran[assignment.lane.node.id] += 1
    return dict(ran)


def on(node: Node, assignments: list[Assignment]) -> list[Assignment]:
    return [assignment for assignment in assignments if assignment.lane.node.id == node.id]


def give_back_pending(held: Held, assignments: list[Assignment]) -> None:
    """Recall, as Tune does, trials that have not begun on a node which is not used any more."""
    for assignment in assignments:
        assert not held.recovery.is_in_use(assignment.lane.node.id)
        held.session.give_back(assignment)


def test_what_went_with_its_node_goes_on_elsewhere_and_is_no_failure(held: Held) -> None:
    assignments = held.assignments()
    running, waiting = on(A, assignments)
    held.recovery.doubt(running)
    held.recovery.settle()
    assert held.assignments() == [], "nobody knows yet whether the node is there"
    held.present.nodes = (B, OTHER)
    held.recovery.settle()
    give_back_pending(held, [waiting])
    for assignment in [*on(B, assignments), *on(OTHER, assignments)]:
        held.session.finish(assignment, COMPLETE)
    assert set(run_all(held)) == {"b", "c"}
    assert held.session.blocks.done
    assert [finished.outcome.status for finished in held.recorded] == ["complete"] * 12
    assert len({finished.trial.key for finished in held.recorded}) == 12
    assert any("node a has left; its trials go to other nodes" in text for text in held.warnings)


def test_a_node_that_answers_is_not_to_blame(held: Held) -> None:
    for attempt in (1, 2):
        running = on(A, held.assignments())[0]
        assert running.attempt == attempt
        held.recovery.doubt(running)
        held.present.answered.add("a")
        held.recovery.settle()
    (lost,) = held.recorded
    assert lost.outcome.failure is not None
    assert lost.outcome.failure.reason == "lost"


def test_a_node_that_shows_nothing_is_taken_as_there_in_the_end(held: Held) -> None:
    running = on(A, held.assignments())[0]
    held.recovery.doubt(running)
    held.now_s = 59.0
    held.recovery.settle()
    assert held.assignments() == []
    held.now_s = 61.0
    held.recovery.settle()
    (second,) = held.assignments()
    assert (second.trial, second.attempt) == (running.trial, 2)


def test_a_trial_that_takes_nodes_with_it_is_given_up(held: Held) -> None:
    assignment = on(A, held.assignments())[0]
    trial = assignment.trial
    for number in range(3):
        held.recovery.doubt(assignment)
        fresh = node(f"a{number}")
        held.present.nodes = (fresh, OTHER)
        held.recovery.settle()
        second = [assignment for assignment in held.assignments() if assignment.trial == trial]
        if number < 2:
            (assignment,) = second
            assert assignment.attempt == number + 2, (
                "a preemption is an attempt that does not count"
            )
    assert second == []
    (lost,) = held.recorded
    assert lost.outcome.failure is not None
    assert "3 of them with its node" in lost.outcome.failure.message


def test_a_node_that_joins_is_used_and_one_of_another_class_is_reported(held: Held) -> None:
    held.assignments()
    held.present.nodes = (A, B, OTHER, node("d"), node("e", cpu_model="CPU E"))
    held.recovery.settle()
    assert {assignment.lane.node.id for assignment in held.assignments()} == {"d"}
    texts = [text for text in held.warnings if "joined" in text]
    assert texts[0] == "node d has joined"
    assert "no arm of this start runs on CPU E, 2 CPUs" in texts[1]


def test_a_node_that_cannot_be_probed_is_reported_once(held: Held) -> None:
    held.present.unusable["bare"] = "bare-host: No module named 'psutil'"
    held.recovery.settle()
    held.recovery.settle()
    (texts,) = held.warnings
    assert "is not used, as it cannot run rnnsweep: bare-host: No module named 'psutil'" in texts


def test_a_small_node_that_joins_takes_no_arm_away(tmp_path: Path) -> None:
    wide = spec_text(SIX, hardware=[{"class": "cpu", "threads": 2}])
    held = Held(tmp_path, wide, (A,))
    held.present.nodes = (A, replace(node("small"), cpus=1), B)
    held.recovery.settle()
    assert {assignment.lane.node.id for assignment in held.assignments()} == {"a", "b"}
    assert any("small has joined and is not used: it has fewer CPUs" in t for t in held.warnings)


def test_an_autoscaler_is_asked_for_hardware_that_has_gone(tmp_path: Path) -> None:
    """It may have ended the node itself, as it idled, or lost it: a spot instance."""
    hardware = [{"class": "cpu", "labels": {"market": market}} for market in ("spot", "own")]
    spot = replace(OTHER, labels={"market": "spot"})
    own = replace(A, labels={"market": "own"})
    held = Held(tmp_path, spec_text(SIX, hardware=hardware), (own, spot))
    lost = on(spot, held.assignments())
    held.recovery.settle()
    assert held.asked == []
    held.present.nodes = (own,)
    held.recovery.settle()
    give_back_pending(held, lost)
    held.recovery.settle()
    held.recovery.settle()
    assert held.asked == [[({"CPU": 1.0}, {"market": "spot"})]]
    assert held.recovery.has_asked
    held.present.nodes = (own, replace(spot, id="again"))
    held.recovery.settle()
    assert held.asked[1:] == [[]]
    assert not held.recovery.has_asked


def test_a_node_that_keeps_failing_is_left_out(held: Held) -> None:
    failed = 0
    while held.recovery.is_in_use("a"):
        for assignment in held.assignments():
            outcome = CRASHED if assignment.lane.node.id == "a" else COMPLETE
            failed += outcome is CRASHED
            held.session.finish(assignment, outcome)
            held.recovery.ended(assignment, outcome)
            held.recovery.settle()
            if not held.recovery.is_in_use("a"):
                break
    assert failed == 3
    assert any("node a is excluded: 3 trials in a row" in text for text in held.warnings)
    assert "a" not in run_all(held)


def test_hardware_that_is_gone_is_waited_for_and_then_reported(held: Held) -> None:
    waiting = on(OTHER, held.assignments())
    held.present.nodes = (A, B)
    held.recovery.settle()
    give_back_pending(held, waiting)
    for assignment in list(held.session.blocks._out.values()):
        held.session.finish(assignment, COMPLETE)
    run_all(held)
    held.recovery.settle()
    held.now_s = 99.0
    held.recovery.settle()
    held.now_s = 101.0
    with pytest.raises(Stopped, match=r"trials that wait: 6 on CPU B, 2 CPUs"):
        held.recovery.settle()
    held.present.nodes = (A, B, node("c2", cpu_model="CPU B"))
    held.recovery.settle()
    assert run_all(held) == {"c2": 6}
    assert held.session.blocks.done


def test_a_silent_head_stops_the_sweep(held: Held) -> None:
    for held.now_s in range(25):
        held.present.silent_s = held.now_s
        held.recovery.expect_head()
    held.now_s = held.present.silent_s = 26.0
    with pytest.raises(Stopped, match="head of the Ray cluster has not answered"):
        held.recovery.expect_head()


def test_a_process_that_stood_still_blames_nobody(held: Held) -> None:
    held.recovery.expect_head()
    held.now_s = held.present.silent_s = 600.0
    held.recovery.expect_head()
    held.now_s += 1.0
    held.present.silent_s = 0.5
    held.recovery.expect_head()
