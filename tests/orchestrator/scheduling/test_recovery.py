"""Workers and nodes that are lost, nodes that come. No Ray: a double lists the nodes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.hardware import Node
from orchestrator.scheduling.lane_queue import Assignment
from tests.orchestrator.sample_plans import complete, node
from tests.orchestrator.sample_specs import OWN, spec_text
from tests.orchestrator.scheduling.sample_sessions import Held

SIX = {
    **OWN,
    "configs": 6,
    "space": {"layers": [1, 2, 3, 4, 5, 6]},
    "limits": {"attempts": 2, "preemptions": 2},
}
A, B, OTHER = node("a"), node("b"), node("c", cpu_model="CPU B")
CRASHED = Outcome("failed", 0.0, 1.0, failure=FailureRecord("crash", "gone"))


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path, spec_text(SIX), (A, B, OTHER))


def end(held: Held, assignment: Assignment, outcome: Outcome | None = None) -> None:
    held.session.finish(assignment, outcome or complete())
    held.recovery.ended(assignment.lane.node, outcome or complete())


def run_all(held: Held) -> dict[str, int]:
    ran: Counter[str] = Counter()
    while assignments := held.assignments():
        for assignment in assignments:
            end(held, assignment)
            ran[assignment.lane.node.id] += 1
    return dict(ran)


def on(node: Node, assignments: list[Assignment]) -> list[Assignment]:
    return [assignment for assignment in assignments if assignment.lane.node.id == node.id]


def settle(held: Held, *nodes: Node, pending: list[Assignment] | None = None) -> None:
    """Have these nodes now; recall, as Tune does, what has not begun on a node without a lane."""
    held.present.nodes = nodes
    held.recovery.settle()
    for assignment in pending or []:
        assert not held.blocks.has_lane(assignment.lane.node.id)
        held.blocks.give_back(assignment, charged=False)


def lost_message(held: Held) -> str:
    (lost,) = held.recorded
    assert lost.outcome.failure is not None
    assert lost.outcome.failure.reason == "lost"
    return lost.outcome.failure.message


def test_what_went_with_its_node_goes_on_elsewhere_and_is_no_failure(held: Held) -> None:
    assignments = held.assignments()
    running, waiting = on(A, assignments)
    held.recovery.doubt(running)
    settle(held, B, OTHER, pending=[waiting])
    for assignment in [*on(B, assignments), *on(OTHER, assignments)]:
        end(held, assignment)
    assert set(run_all(held)) == {"b", "c"}
    assert held.blocks.done
    assert [finished.outcome.status for finished in held.recorded] == ["complete"] * 12
    assert len({finished.trial.key for finished in held.recorded}) == 12
    assert any("node a has left; its trials go to other nodes" in text for text in held.warnings)


def test_a_worker_that_is_lost_on_a_node_that_is_there_costs_an_attempt(held: Held) -> None:
    running = on(A, held.assignments())[0]
    held.recovery.doubt(running)
    for held.now_s in (0.0, 59.0):
        held.recovery.settle()
        assert held.assignments() == []
    held.now_s = 61.0  # a node that shows nothing is taken as there in the end
    held.recovery.settle()
    (second,) = held.assignments()
    assert (running.attempt, second.trial, second.attempt) == (1, running.trial, 2)
    held.recovery.doubt(second)
    held.present.answered.add("a")
    held.recovery.settle()
    assert "in each of 2 attempts (limits" in lost_message(held)


def test_a_trial_that_takes_nodes_with_it_is_given_up(held: Held) -> None:
    assignment = on(A, held.assignments())[0]
    for number in range(3):
        held.recovery.doubt(assignment)
        settle(held, node(f"a{number}"), OTHER)
        second = [other for other in held.assignments() if other.trial == assignment.trial]
        if number < 2:
            (assignment,) = second
            assert assignment.attempt == number + 2
    assert second == []
    assert "3 of them with its node" in lost_message(held)


def test_nodes_that_join_are_used_or_reported(tmp_path: Path) -> None:
    wide = spec_text(SIX, hardware=[{"class": "cpu", "threads": 2}])
    held = Held(tmp_path, wide, (A, B))
    held.assignments()
    held.present.unusable["bare"] = "bare-host: No module named 'psutil'"
    small = replace(node("small"), cpus=1)
    settle(held, A, B, node("d"), node("e", cpu_model="CPU E"), small)
    held.recovery.settle()
    assert {assignment.lane.node.id for assignment in held.assignments()} == {"d"}
    expected = [
        "node d has joined",
        "node e has joined and is not used: no arm of this start runs on CPU E, 2 CPUs",
        "node small has joined and is not used: it has fewer CPUs",
        "a node has joined and is not used, as it cannot run rnnsweep: bare-host: No module",
    ]
    shown = zip(held.warnings, expected, strict=True)
    assert all(text.startswith(start) for text, start in shown)


def test_an_autoscaler_is_asked_for_hardware_that_has_gone(tmp_path: Path) -> None:
    """It may have ended the node itself, as it idled, or lost it: a spot instance."""
    hardware = [{"class": "cpu", "labels": {"market": market}} for market in ("spot", "own")]
    spot = replace(OTHER, labels={"market": "spot"})
    own = replace(A, labels={"market": "own"})
    held = Held(tmp_path, spec_text(SIX, hardware=hardware), (own, spot))
    lost = on(spot, held.assignments())
    held.recovery.settle()
    assert held.asked == []
    settle(held, own, pending=lost)
    held.recovery.settle()
    held.recovery.settle()
    assert held.asked == [[({"CPU": 1.0}, {"market": "spot"})]]
    assert held.recovery.requested
    settle(held, own, replace(spot, id="again"))
    assert held.asked[1:] == [[]]
    assert not held.recovery.requested


def test_a_node_that_keeps_failing_is_left_out_if_another_has_its_hardware(held: Held) -> None:
    failed: Counter[str] = Counter()
    while held.blocks.has_lane("a"):
        for assignment in held.assignments():
            id_ = assignment.lane.node.id
            end(held, assignment, complete() if id_ == "b" else CRASHED)
            failed[id_] += 1
            held.recovery.settle()
            if not held.blocks.has_lane("a"):
                break
    assert failed["a"] == 3
    assert any("node a is excluded: 3 trials in a row" in text for text in held.warnings)
    assert "a" not in run_all(held)
    for _ in range(3):
        held.recovery.ended(OTHER, None)
    held.recovery.settle()
    assert held.blocks.has_lane("c")


def test_hardware_that_is_gone_is_waited_for_and_then_reported(held: Held) -> None:
    waiting = on(OTHER, held.assignments())
    settle(held, A, B, pending=waiting)
    for assignment in list(held.blocks._out.values()):
        end(held, assignment)
    run_all(held)
    held.recovery.settle()
    held.now_s = 99.0
    held.recovery.settle()
    held.now_s = 101.0
    with pytest.raises(Stopped, match=r"trials that wait: 6 on CPU B, 2 CPUs"):
        held.recovery.settle()
    with pytest.raises(Stopped, match="lost every node"):
        settle(held)
    settle(held, A, B, node("c2", cpu_model="CPU B"))
    assert run_all(held) == {"c2": 6}
    assert held.blocks.done


def test_a_silent_head_stops_the_sweep_unless_this_process_stood_still(held: Held) -> None:
    held.recovery.expect_head()
    held.now_s = held.present.silent_s = 600.0
    for step in range(26):
        held.now_s = held.present.silent_s = 600.0 + step
        held.recovery.expect_head()
    held.now_s = held.present.silent_s = 626.0
    with pytest.raises(Stopped, match="head of the Ray cluster has not answered"):
        held.recovery.expect_head()
