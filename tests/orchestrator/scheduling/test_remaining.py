"""The work that earlier starts leave, and the records of it in journal and store."""

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.cli.local import describe_sweep
from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.stop_decision import StopDecision
from orchestrator.core.trial import Block, FailureRecord, FinishedTrial, Outcome, make_trial
from orchestrator.hardware import Node, classify
from orchestrator.planning.plan import AwaitedArm, Plan, make_plan
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.node_wait import arms_worth_waiting_for
from orchestrator.scheduling.remaining import (
    RemainingWork,
    first_records,
    make_opening,
    remaining_work,
)
from orchestrator.spec import SweepSpec, parse_spec
from orchestrator.storage import journal
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.tracking.stored_records import Manifest
from tests.building.hardware import build_node
from tests.building.scheduling import build_outcome_of
from tests.building.sessions import SampleSession
from tests.building.specs import USER_WORKLOAD, build_spec, build_spec_text
from tests.building.trials import IDENTITY
from tests.orchestrator.scheduling.test_session import THREE

MANY: dict[str, Any] = {"space": {"layers": {"low": 1, "high": 99}}}


def paced(assignment: Assignment) -> list[Outcome]:
    """Complete outcomes: the baseline takes as long in each block, the others do not."""
    outcomes = list[Outcome]()
    for trial in assignment.trials:
        slow = 1.0 if trial.arm.implementation == "python/b" else 2.0
        wobble = 1 + 0.1 * ((trial.block * 7919) % 13) / 13
        outcomes.append(build_outcome_of(assignment, step_ms=slow * wobble ** (slow - 1)))
    return outcomes


def test_a_decision_that_was_not_written_is_made_again_by_the_next_start(tmp_path: Path) -> None:
    """Killed with a trial out, just before the stop decision was written."""
    auto = {"interval": 0.05, "at_most": 40}
    text = build_spec_text(THREE, name="sweep", measure=None, configs=auto, **MANY)
    folder = SweepFolder(tmp_path, "sweep").generation(1)
    sample = SampleSession(folder, text)
    state = sample.state()
    for record in first_records(
        remaining_work(sample.spec, sample.plan, state, retry_failed=False), state
    ):
        sample.journal.append(record)
    out = deque(sample.assignments())
    while (decision := sample.dispatcher.ledger.stop_decision) is None:
        assignment = out.popleft()
        sample.session.finish(assignment, *paced(assignment))
        out += sample.assignments()
    assert out
    assert 6 <= decision.blocks < 40
    (line,) = sample.lines("stop_decided")
    assert (line["decision"]["blocks"], line["decision"]["rule"]) == (decision.blocks, "blocks")
    lines = sample.journal.path.read_text().splitlines(keepends=True)
    sample.journal.path.write_text("".join(line for line in lines if "stop_decided" not in line))
    second = sample.killed(text)
    state = second.state()
    work = remaining_work(second.spec, second.plan, state, retry_failed=False)
    added = first_records(work, state)
    assert [record.record for record in added] == ["session_started", "stop_decided"]
    assert (work.stop_decision, work.plan.ending) == (decision, "decided")
    begun = len(state.blocks)
    assert (work.plan.blocks, work.missing) == (begun, 3 * begun - len(state.finished))
    for record in added:
        second.journal.append(record)
    text = describe_sweep(tmp_path, "sweep")
    assert f"of {3 * begun} trials ended" in text
    assert f"after {decision.blocks} blocks: every speed-up is known" in text


BROKEN = Outcome("failed", 0.0, 1.0, failure=FailureRecord("error", "odd\n  its call"))


def test_a_stopped_arm_leaves_nothing_to_run_until_it_is_retried(tmp_path: Path) -> None:
    arms, space = ["python/a", "python/b"], {"layers": [1, 2, 3, 4, 5]}
    limits, read = {"failures": 2}, {"val_accuracy": {"direction": "maximize", "over": arms[1]}}
    searched = {**USER_WORKLOAD, "sampler": "tpe", "objectives": read}
    text = build_spec_text(searched, implementations=arms, configs=5, space=space, limits=limits)
    sample = SampleSession(SweepFolder(tmp_path, "mine").generation(1), text)
    work = remaining_work(sample.spec, sample.plan, sample.state(), retry_failed=False)
    for record in first_records(work, sample.state()):
        sample.journal.append(record)
    while not sample.dispatcher.done:
        assignment = sample.assign()
        outcomes = (
            BROKEN if trial.arm.implementation == "python/b" else build_outcome_of(assignment)
            for trial in assignment.trials
        )
        sample.session.finish(assignment, *outcomes)
    (stopped,) = sample.view.arm_stopped.call_args_list
    assert ["val_accuracy" in text for text in sample.warnings] == [True], "no other arm is read"
    assert str(stopped.args[0]) in describe_sweep(tmp_path, "mine")
    assert stopped.args[1] in describe_sweep(tmp_path, "mine")
    assert (len(sample.state().finished), sample.lines("session_started")[0]["failures"]) == (7, 2)
    for overrides, retry_failed, missing in (
        ([], False, 0),
        ([], True, 5),
        (["limits.failures=null"], False, 3),
    ):
        asked = parse_spec(text, source="spec", overrides=overrides)
        work = remaining_work(asked, sample.plan, sample.state(), retry_failed=retry_failed)
        assert (work.missing, len(work.running.arms)) == (missing, 2 if missing else 1)
    assert sample.killed(text).view.arm_stopped.call_args_list == [stopped], "each start reports it"


def test_failures_are_not_in_a_row_because_what_was_between_is_timed_again(tmp_path: Path) -> None:
    """Another arm is added: the complete trials of each round are timed once more."""
    changes: dict[str, Any] = {"configs": 5, "space": {"layers": [1, 2, 3, 4, 5]}}
    two = build_spec_text(THREE, implementations=["python/a", "python/b"], **changes)
    sample = SampleSession(SweepFolder(tmp_path, "mine").generation(1), two)
    for missing in (10, 12, 0):
        work = remaining_work(sample.spec, sample.plan, sample.state(), retry_failed=False)
        assert work.missing == missing
        for record in first_records(work, sample.state()):
            sample.journal.append(record)
        while not sample.dispatcher.done:
            assignment = sample.assign()
            outcomes = (
                BROKEN
                if trial.block % 2 == 0 and trial.arm.implementation == "python/b"
                else build_outcome_of(assignment, index, step_ms=5.0)
                for index, trial in enumerate(assignment.trials)
            )
            sample.session.finish(assignment, *outcomes)
        assert not sample.view.arm_stopped.called
        assert "was stopped" not in describe_sweep(tmp_path, "mine")
        sample = sample.killed(build_spec_text(THREE, **changes))


TWO = """
name: sweep
workload: own.module:run
search:
  sampler: random
  configs: {interval: 0.05, at_most: 20}
  space: {layers: {low: 1, high: 99}}
arms: {implementations: [python/a], hardware: [cpu, {class: gpu, wait_s: 60}]}
"""
CPU, GPU = build_node("a"), build_node("b", gpus=1)


def earlier() -> journal.JournalState:
    """Return the state after a start on both nodes that needed seven blocks, by its own rule."""
    # By the rule of now they are not: the second arm of the pair swings from block to block.
    spec = parse_spec(TWO, source="spec")
    laid = make_plan(spec, classify([CPU, GPU]))
    records: list[journal.Record] = [
        journal.SweepOpened(IDENTITY, spec.model_dump(mode="json")),
        journal.SessionStarted(
            0.0, 1, "host", "0.1", laid.index_count, 1, list(laid.arms), may_stop_early=True
        ),
    ]
    for index in range(7):
        block = Block(index, {"layers": index + 1})
        records.append(journal.BlockSuggested(index, block.config, 0.0))
        for number, arm in enumerate(laid.arms):
            metrics = {"step_ms": 1.0 + number * (1 + index % 2)}
            outcome = Outcome("complete", 0.0, 1.0, node="a", metrics=metrics)
            records.append(
                journal.TrialFinished(FinishedTrial(make_trial(IDENTITY, block, arm, 0), outcome))
            )
    records += [
        journal.StopDecided(1.0, StopDecision("as it was", 0.04, 7, "blocks")),
        journal.SessionEnded(2.0, "complete"),
    ]
    state = journal.replay(records)
    assert state is not None
    return state


def left_on(nodes: list[Node], state: journal.JournalState, text: str = TWO) -> RemainingWork:
    spec = parse_spec(text, source="spec")
    laid = make_plan(spec, classify(nodes), "to come")
    return remaining_work(spec, laid, state, retry_failed=False)


def test_over_a_part_of_the_arms_nothing_is_judged() -> None:
    """The driver was killed, and the node with the GPU has left until somebody asks for it."""
    state = replace(earlier(), stop_decision=None, ended=None)
    work = left_on([CPU], state)
    assert (len(work.plan.arms), len(work.plan.awaited)) == (1, 1)
    assert (work.stop_decision, work.plan.blocks, work.missing) == (None, 20, 13)
    assert arms_worth_waiting_for(work.plan, work.history) == work.plan.awaited
    both = left_on([CPU, GPU], state)
    assert (both.stop_decision, both.plan.blocks, both.missing) == (None, 20, 26)


def test_a_sweep_that_an_earlier_rule_ended_stays_ended() -> None:
    state = earlier()
    work = left_on([CPU, GPU], state)
    assert work.stop_decision == state.stop_decision
    assert (work.plan.ending, work.plan.blocks, work.missing) == ("decided", 7, 0)
    assert first_records(work, state) == []
    assert arms_worth_waiting_for(work.plan, work.history) == ()


def test_a_spec_that_asks_for_more_than_was_reached_continues() -> None:
    narrower = TWO.replace("interval: 0.05", "interval: 0.03")
    work = left_on([CPU, GPU], earlier(), narrower)
    assert (work.stop_decision, work.plan.blocks) == (None, 20)
    assert work.missing > 0


BASE = {**USER_WORKLOAD, "implementations": ["python/a", "python/b"], "hardware": ["cpu", "gpu"]}
SPEC = build_spec(BASE)
FIRST = IDENTITY


def plan_of(checked: SweepSpec) -> Plan:
    return make_plan(checked, classify([CPU]))


def manifest(*arguments: Any, **options: Any) -> Manifest:
    return make_opening(*arguments, **options).manifest


def test_the_store_has_all_arms_of_a_sweep_that_was_larger_and_the_blocks_of_the_last_start() -> (
    None
):
    space = {"layers": [1, 2, 3, 4, 5]}
    wider = [*BASE["implementations"], "python/c"]
    more = build_spec(BASE, repeats=2, configs=5, space=space, implementations=wider)
    larger, laid = plan_of(more), plan_of(SPEC)
    first = manifest(more, larger, FIRST, None, begun=True)
    second = manifest(SPEC, laid, FIRST, first, begun=True)
    assert (first.blocks, first.repeats) == (larger.blocks, larger.repeats) == (5, 2)
    assert (second.blocks, second.repeats) == (laid.blocks, laid.repeats) == (3, 1)
    opened = manifest(SPEC, laid, FIRST, first)
    assert (opened.blocks, opened.repeats) == (5, 2)  # until the start begins
    resumed = replace(laid, skipped_blocks=frozenset({1}))
    kept = manifest(SPEC, resumed, FIRST, first, begun=True)
    assert (kept.blocks, kept.skipped_blocks) == (4, (1,))
    assert set(second.arms) == set(larger.arms)
    assert (first.current, second.current) == (larger.arms, laid.arms)
    assert set(second.arms) - set(second.current) == {Arm("python/c", larger.arms[0].hardware)}
    fresh = manifest(SPEC, laid, replace(FIRST, generation=2), first)
    assert (fresh.blocks, fresh.repeats, fresh.arms) == (3, 1, laid.arms)


def test_while_arms_are_waited_for_nobody_has_left() -> None:
    """The store names an arm by its class, which only the node shows."""
    laid = plan_of(SPEC)
    awaited = AwaitedArm(RequestedArm("python/a", "gpu"), SPEC.arms.hardware[1])
    waiting = manifest(SPEC, replace(laid, awaited=(awaited,)), FIRST, None)
    assert (waiting.arms, waiting.current) == (laid.arms, ())


def test_of_a_sweep_that_ends_by_itself_no_more_is_expected_than_it_needed() -> None:
    auto = build_spec(BASE, configs="auto", **MANY)
    forty = replace(plan_of(SPEC), blocks=40)
    before = manifest(SPEC, forty, FIRST, None)
    now = manifest(auto, plan_of(auto).with_index_count(12), FIRST, before, begun=True)
    assert (before.blocks, now.blocks) == (40, 12)
    assert manifest(SPEC, replace(forty, blocks=8), FIRST, now, begun=True).blocks == 8
