"""Workers and nodes that are lost, nodes that come. No Ray: a double lists the nodes."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.hardware import Node
from orchestrator.planning.plan import UnusableGpu
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.recovery import RetryPolicy
from tests.building.hardware import build_node
from tests.building.sessions import SampleSession
from tests.building.specs import USER_WORKLOAD, build_spec_text
from tests.building.trials import build_outcome
from tests.commands import wait_for

SIX = {
    **USER_WORKLOAD,
    "configs": 6,
    "space": {"layers": [1, 2, 3, 4, 5, 6]},
    "limits": {"attempts": 2, "preemptions": 2},
}
A, B, OTHER = build_node("a"), build_node("b"), build_node("c", cpu_model="CPU B")
CRASHED = Outcome("failed", 0.0, 1.0, failure=FailureRecord("crash", "gone"))


@pytest.fixture
def sample(tmp_path: Path) -> SampleSession:
    return SampleSession(tmp_path, build_spec_text(SIX), (A, B, OTHER))


def end(sample: SampleSession, assignment: Assignment, outcome: Outcome | None = None) -> None:
    sample.session.finish(assignment, *(outcome or build_outcome() for _ in assignment.trials))
    sample.recovery.count_end(assignment.lane.node, outcome or build_outcome())


def lose_worker(sample: SampleSession, assignment: Assignment) -> None:
    """Lose the worker of an assignment, which had its slot for ten seconds."""
    sample.recovery.lose_worker(assignment, 100.0, 110.0)


def run_all(sample: SampleSession) -> dict[str, int]:
    ran: Counter[str] = Counter()
    while assignments := sample.assignments():
        for assignment in assignments:
            end(sample, assignment)
            ran[assignment.lane.node.id] += 1
    return dict(ran)


def on(node: Node, assignments: list[Assignment]) -> list[Assignment]:
    return [assignment for assignment in assignments if assignment.lane.node.id == node.id]


def settle(sample: SampleSession, *nodes: Node, pending: list[Assignment] | None = None) -> None:
    """Have these nodes now; recall, as Tune does, what has not begun on a node without a lane."""
    sample.present.nodes = nodes
    sample.recovery.settle()
    for assignment in pending or []:
        assert not sample.dispatcher.has_lane(assignment.lane.node.id)
        sample.dispatcher.give_back(assignment, charged=False)


def lost_message(sample: SampleSession) -> str:
    (lost,) = sample.recorded
    assert lost.outcome.failure is not None
    assert lost.outcome.failure.reason == "lost"
    return lost.outcome.failure.message


def test_what_went_with_its_node_goes_on_elsewhere_and_is_no_failure(sample: SampleSession) -> None:
    assignments = sample.assignments()
    running, waiting = on(A, assignments)
    lose_worker(sample, running)
    settle(sample, B, OTHER, pending=[waiting])
    for assignment in [*on(B, assignments), *on(OTHER, assignments)]:
        end(sample, assignment)
    assert set(run_all(sample)) == {"b", "c"}
    assert sample.dispatcher.done
    assert [finished.outcome.status for finished in sample.recorded] == ["complete"] * 12
    assert len({finished.trial.key for finished in sample.recorded}) == 12
    assert any("node a has left" in text for text in sample.warnings)


def test_a_worker_that_is_lost_on_a_node_that_is_there_costs_an_attempt(
    sample: SampleSession,
) -> None:
    running = on(A, sample.assignments())[0]
    lose_worker(sample, running)
    for sample.now_s in (0.0, 59.0):
        sample.recovery.settle()
        assert sample.assignments() == []
    sample.now_s = 61.0  # a node that shows nothing is taken as there in the end
    sample.recovery.settle()
    (second,) = sample.assignments()
    assert (running.attempt, second.trials, second.attempt) == (1, running.trials, 2)
    lose_worker(sample, second)
    sample.present.answered.add("a")
    sample.recovery.settle()
    assert "in all of 2 attempts" in lost_message(sample)


def test_a_trial_that_takes_nodes_with_it_is_given_up(sample: SampleSession) -> None:
    assignment = on(A, sample.assignments())[0]
    for number in range(3):
        lose_worker(sample, assignment)
        settle(sample, build_node(f"a{number}"), OTHER)
        second = [other for other in sample.assignments() if other.trials == assignment.trials]
        if number < 2:
            (assignment,) = second
            assert assignment.attempt == number + 2
    assert second == []
    assert "3 of them with its node" in lost_message(sample)


@dataclass(frozen=True)
class Losses:
    """How often a trial was lost with its worker alone (W) and with its node (N), in this order."""

    order: str
    is_given_up: bool


@pytest.mark.parametrize(
    "losses",
    [
        Losses("WW", True),
        Losses("NNN", True),
        Losses("NWNW", True),
    ],
    ids=lambda losses: losses.order,
)
def test_a_trial_is_tried_again_until_a_limit_is_reached(losses: Losses) -> None:
    policy = RetryPolicy(attempts=2, preemptions=2)
    results = [policy.count_loss(["key"], with_node=cause == "N") for cause in losses.order]
    assert results[:-1] == [None] * (len(results) - 1)
    assert (results[-1] is not None) == losses.is_given_up


PRICED = {
    **SIX,
    "prices": [{"hardware": "cpu", "usd_per_hour": 3.6, "source": "a", "date": "2026-11-21"}],
}


def usd(sample: SampleSession) -> float:
    (ended,) = sample.recorded
    return ended.metrics["cost_usd"]


def lose_attempt(sample: SampleSession, assignment: Assignment) -> None:
    """Lose an attempt, of ten seconds, with its worker alone."""
    lose_worker(sample, assignment)
    sample.present.answered.add(assignment.lane.node.id)
    sample.recovery.settle()


def test_a_trial_that_is_given_up_costs_all_of_its_attempts(tmp_path: Path) -> None:
    sample = SampleSession(tmp_path, build_spec_text(PRICED), (A,))
    first = sample.assign()
    lose_attempt(sample, first)
    second = next(
        assignment for assignment in sample.assignments() if assignment.trials == first.trials
    )
    lose_attempt(sample, second)
    assert "in all of 2 attempts" in lost_message(sample)
    assert usd(sample) == pytest.approx(0.02)
    assert sample.recorded[0].node == "a"


def test_a_trial_that_ends_well_costs_its_lost_attempts_too_also_after_a_kill(
    tmp_path: Path,
) -> None:
    sample = SampleSession(tmp_path, build_spec_text(PRICED), (A,))
    running = sample.assign()
    lose_attempt(sample, running)
    sample = sample.killed(build_spec_text(PRICED))
    second = next(
        assignment for assignment in sample.assignments() if assignment.trials == running.trials
    )
    sample.session.finish(second, Outcome("complete", 200.0, 205.0))
    assert usd(sample) == pytest.approx(0.015)
    assert sample.state().lost_s == {}, "paid once"


def test_a_lost_round_is_paid_for_once(tmp_path: Path) -> None:
    timed = {"implementations": ["python/a", "python/b"], "measure": "timing"}
    sample = SampleSession(tmp_path, build_spec_text(PRICED, **timed), (A,))
    lose_attempt(sample, sample.assign())
    second = sample.assign()
    sample.session.finish(second, *(Outcome("complete", 200.0, 205.0) for _ in second.trials))
    assert [finished.metrics["cost_usd"] for finished in sample.recorded] == [
        pytest.approx(0.0075)
    ] * 2


def test_nodes_that_join_are_used_or_reported(tmp_path: Path) -> None:
    wide = build_spec_text(SIX, hardware=[{"class": "cpu", "threads": 2}])
    sample = SampleSession(tmp_path, wide, (A, B))
    sample.assignments()
    sample.present.unusable["bare"] = "bare-host: No module named 'psutil'"
    small = replace(build_node("small"), cpus=1)
    settle(sample, A, B, build_node("d"), build_node("e", cpu_model="CPU E"), small)
    sample.recovery.settle()
    assert {assignment.lane.node.id for assignment in sample.assignments()} == {"d"}
    expected = [
        "node d has joined",
        "node e has joined and is not used: no arm of this start runs on CPU E, 2 CPUs",
        "node small has joined and is not used: it has fewer CPUs",
        "a node has joined, but cannot run rnnsweep: bare-host: No module",
    ]
    shown = zip(sample.warnings, expected, strict=True)
    assert all(text.startswith(start) for text, start in shown)


T4 = build_node("t4", cpus=4, gpus=1)
GPU_ARMS = {"implementations": ["tensorflow/portable", "torch/fused"], "hardware": ["gpu"]}


@pytest.fixture
def gpu_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleSession:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda _: True)
    return SampleSession(tmp_path, build_spec_text(**GPU_ARMS), (T4,))


def late_node(name: str) -> Node:
    return build_node(name, cpus=4, gpus=1)


def arms_by_node(assignments: list[Assignment]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for assignment in assignments:
        arms = {trial.arm.implementation for trial in assignment.trials}
        found.setdefault(assignment.lane.node.id, set()).update(arms)
    return found


def answer_after(event: threading.Event) -> Callable[[], list[UnusableGpu]]:
    """Return an answer that everything can be used, which comes after an event."""

    def answer() -> list[UnusableGpu]:
        event.wait(60)
        return []

    return answer


def settle_answers(sample: SampleSession) -> None:
    """Settle until every node that has joined has answered."""

    def has_settled() -> bool:
        sample.recovery.settle()
        return not sample.recovery.nodes.is_asking

    wait_for(has_settled)


def test_a_node_that_joins_is_asked_once_before_its_first_trial_on_a_gpu(
    gpu_sample: SampleSession,
) -> None:
    sample, may_answer = gpu_sample, threading.Event()
    first = sample.assignments()
    sample.gpu_answers["late"] = answer_after(may_answer)
    late = late_node("late")
    for _ in range(3):
        settle(sample, T4, late)
        assert sample.assignments() == [], "it has not answered yet"
    may_answer.set()
    settle_answers(sample)
    for _ in range(3):
        settle(sample, T4, late)
    assert arms_by_node(sample.assignments()).keys() == {"late"}
    asked = [(question.node_id, question.backend) for question in sample.gpu_questions]
    assert sorted(asked) == [("late", "tensorflow"), ("late", "torch")]
    for assignment in first:
        end(sample, assignment)
    assert sample.warnings == ["node late has joined"]


def test_a_node_that_joins_runs_only_what_can_use_its_gpu(gpu_sample: SampleSession) -> None:
    sample = gpu_sample
    held = sample.assignments()
    blind = [UnusableGpu("late", "torch", "it sees none")]
    sample.gpu_answers["late"] = lambda: blind
    settle(sample, T4, late_node("late"))
    settle_answers(sample)
    ran = Counter[str]()
    while assignments := sample.assignments():
        for assignment in assignments:
            assert assignment.lane.node.id == "late"
            ran.update(trial.arm.implementation for trial in assignment.trials)
            end(sample, assignment)
    assert ran.keys() == {"tensorflow/portable"}
    # Another change of the nodes makes the lanes anew, and the answer still holds.
    sample.gpu_answers["blind"] = lambda: [
        UnusableGpu("blind", name, "no driver") for name in ("torch", "tensorflow")
    ]
    settle(sample, T4, late_node("late"), late_node("blind"))
    settle_answers(sample)
    for assignment in held:
        end(sample, assignment)
    while assignments := sample.assignments():
        for assignment in assignments:
            node, arms = assignment.lane.node.id, {t.arm.implementation for t in assignment.trials}
            assert node == "t4" or (node, arms) == ("late", {"tensorflow/portable"})
            end(sample, assignment)
    assert sample.dispatcher.done
    assert sample.warnings == [
        "node late has joined; torch cannot use its GPUs: it sees none",
        "node blind has joined and is not used: torch, tensorflow cannot use its GPUs: no driver",
    ]


def test_a_node_that_cannot_be_asked_is_used_and_one_that_leaves_is_not(
    gpu_sample: SampleSession,
) -> None:
    sample, may_answer = gpu_sample, threading.Event()
    sample.assignments()

    def fail() -> list[UnusableGpu]:
        raise RuntimeError("the worker has died")

    sample.gpu_answers |= {"odd": fail, "brief": answer_after(may_answer)}
    settle(sample, T4, late_node("odd"), late_node("brief"))
    settle(sample, T4, late_node("odd"))
    assert not sample.recovery.nodes.is_asking or sample.assignments() == []
    settle_answers(sample)
    may_answer.set()
    assert arms_by_node(sample.assignments()).keys() == {"odd"}


def test_the_wait_for_hardware_does_not_end_while_a_node_is_asked(
    gpu_sample: SampleSession,
) -> None:
    sample, may_answer = gpu_sample, threading.Event()
    for assignment in sample.assignments():
        sample.dispatcher.give_back(assignment, charged=False)
    sample.gpu_answers["late"] = answer_after(may_answer)
    settle(sample, late_node("late"))
    for sample.now_s in (50.0, 200.0):
        settle(sample, late_node("late"))
    may_answer.set()
    settle_answers(sample)
    assert arms_by_node(sample.assignments()).keys() == {"late"}


def test_an_autoscaler_is_asked_for_hardware_that_has_gone(tmp_path: Path) -> None:
    """It may have ended the node itself, as it idled, or lost it: a spot instance."""
    hardware = [{"class": "cpu", "labels": {"market": market}} for market in ("spot", "own")]
    spot = replace(OTHER, labels={"market": "spot"})
    own = replace(A, labels={"market": "own"})
    sample = SampleSession(tmp_path, build_spec_text(SIX, hardware=hardware), (own, spot))
    lost = on(spot, sample.assignments())
    sample.recovery.settle()
    assert sample.asked == []
    settle(sample, own, pending=lost)
    sample.recovery.settle()
    sample.recovery.settle()
    assert sample.asked == [[({"CPU": 1.0}, {"market": "spot"})]]
    assert sample.recovery.requested
    settle(sample, own, replace(spot, id="again"))
    assert sample.asked[1:] == [[]]
    assert not sample.recovery.requested


def test_a_node_that_keeps_failing_is_left_out_if_another_has_its_hardware(
    sample: SampleSession,
) -> None:
    failed: Counter[str] = Counter()
    while sample.dispatcher.has_lane("a"):
        for assignment in sample.assignments():
            id_ = assignment.lane.node.id
            end(sample, assignment, build_outcome() if id_ == "b" else CRASHED)
            failed[id_] += 1
            sample.recovery.settle()
            if not sample.dispatcher.has_lane("a"):
                break
    assert failed["a"] == 3
    assert any("3 rounds in a row" in text for text in sample.warnings)
    assert "a" not in run_all(sample)
    for _ in range(3):
        sample.recovery.nodes.count_end(OTHER, None)
    sample.recovery.settle()
    assert sample.dispatcher.has_lane("c")


def test_hardware_that_is_gone_is_waited_for_and_then_reported(sample: SampleSession) -> None:
    waiting = on(OTHER, sample.assignments())
    settle(sample, A, B, pending=waiting)
    for assignment in sample.dispatcher.handed_out:
        end(sample, assignment)
    run_all(sample)
    sample.recovery.settle()
    sample.now_s = 99.0
    sample.recovery.settle()
    sample.now_s = 101.0
    with pytest.raises(Stopped, match=r"6 on CPU B, 2 CPUs"):
        sample.recovery.settle()
    with pytest.raises(Stopped, match="lost every node"):
        settle(sample)
    settle(sample, A, B, build_node("c2", cpu_model="CPU B"))
    assert run_all(sample) == {"c2": 6}
    assert sample.dispatcher.done


def test_a_silent_head_stops_the_sweep_unless_this_process_stood_still(
    sample: SampleSession,
) -> None:
    sample.recovery.expect_head()
    sample.now_s = sample.present.silent_s = 600.0
    for step in range(26):
        sample.now_s = sample.present.silent_s = 600.0 + step
        sample.recovery.expect_head()
    sample.now_s = sample.present.silent_s = 626.0
    with pytest.raises(Stopped, match="head of the Ray cluster has not answered"):
        sample.recovery.expect_head()
