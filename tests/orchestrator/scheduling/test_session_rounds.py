"""Rounds of slices and disturbed trials between blocks, journal, store and sampler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.core.criteria import Timing
from orchestrator.core.trial import (
    FailureRecord,
    Outcome,
    outcome_adapter,
)
from orchestrator.execution.job import Job, job_adapter
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.tune_searcher import BlockSearch
from tests.orchestrator.sample_specs import OWN, spec_text
from tests.orchestrator.scheduling.sample_sessions import Held, on

THREE = {
    **OWN,
    "configs": 2,
    "space": {"layers": [1, 2]},
    "implementations": ["python/a", "python/b", "python/c"],
    "baseline": "python/b",
    "limits": {"attempts": 2},
}
SPEC = spec_text(THREE)
SLICES = {"mode": "timing", "interval": 0.02, "slice_s": 0.5}
TIMED = spec_text(THREE, measure=SLICES)
AUTO = spec_text(THREE, configs=None, space={"layers": {"low": 1, "high": 99}})


def busy(assignment: Assignment) -> Outcome:
    return on(assignment, others_cpu_pct=43.0)


def test_a_round_is_one_record_and_its_trials_know_it(tmp_path: Path) -> None:
    held = Held(tmp_path, TIMED)
    assignment = held.assign()
    held.session.finish(assignment, *(on(assignment, index, step_ms=5.0) for index in range(3)))
    assert len(held.lines("round_finished")) == 1
    assert held.lines("trial_finished") == []
    state = held.state()
    assert list(state.finished) == [trial.key for trial in assignment.trials]
    assert [finished.trial for finished in held.recorded] == list(assignment.trials)
    assert [finished.round_id for finished in held.recorded] == ["10.000"] * 3
    assert all(finished.telemetry.other_trainers == 0 for finished in held.recorded)


FOUR = spec_text(THREE, measure=SLICES, implementations=[f"python/{name}" for name in "abcd"])


def races(held: Held) -> dict[int, set[str | None]]:
    """Of each block, the races that its arms' last outcomes come from."""
    seen: dict[int, set[str | None]] = {}
    for finished in held.state().finished.values():
        seen.setdefault(finished.trial.block, set()).add(finished.outcome.round_id)
    return seen


@pytest.mark.parametrize("cut", range(5))
def test_an_extended_sweep_that_is_killed_ends_with_whole_rounds(tmp_path: Path, cut: int) -> None:
    held = Held(tmp_path, TIMED)
    for _ in range(2):
        assignment = held.assign()
        held.session.finish(assignment, *(on(assignment) for _ in assignment.trials))
    ran = 0
    longer = held.killed(FOUR)
    while not longer.blocks.done:
        assignment = longer.assign()
        if ran == cut:
            longer, ran = longer.killed(FOUR), ran + 1
            continue
        longer.session.finish(assignment, *(on(assignment, 100 + ran) for _ in assignment.trials))
        ran += 1
    assert ran <= 3, "each of the two blocks once, and once handed out in vain"
    assert {block: len(seen) for block, seen in races(longer).items()} == {0: 1, 1: 1}
    assert len(longer.state().finished) == 8


def test_rivals_pay_for_their_round_once(tmp_path: Path) -> None:
    priced = "prices: [{hardware: cpu, usd_per_hour: 3.6, source: a bill, date: 2026-11-21}]\n"
    held = Held(tmp_path, TIMED + priced)
    assignment = held.assign()
    held.session.finish(assignment, *(on(assignment, index) for index in range(3)))
    costs = [finished.outcome.metrics["cost_usd"] for finished in held.recorded]
    assert sum(costs) == pytest.approx(0.010), "ten seconds, from the first start to the last end"


def test_a_disturbed_trial_is_marked_and_counts(tmp_path: Path) -> None:
    held = Held(tmp_path, SPEC)
    assignment = held.assign()
    held.session.finish(assignment, busy(assignment))
    (kept,) = held.recorded
    assert kept.outcome.status == "complete"
    assert kept.disturbance == {"other_processes": 43.0}
    assert held.assign().trial.key != assignment.trial.key


def test_the_canary_is_judged_by_what_it_took_before(tmp_path: Path) -> None:
    held = Held(tmp_path, SPEC)
    for index in range(5):
        assignment = held.assign()
        held.session.finish(assignment, on(assignment, canary_ms=10.0 + 0.01 * index))
    second = held.killed(SPEC)
    assignment = second.assign()
    second.session.finish(assignment, on(assignment, canary_ms=30.0))
    assert not any(finished.outcome.disturbance for finished in held.recorded)
    assert "slow_canary" in second.recorded[0].disturbance


def paced(assignment: Assignment) -> Outcome:
    """A complete outcome: the baseline takes as long in each block, the others do not."""
    slow = 1.0 if assignment.trial.arm.implementation == "python/b" else 2.0
    wobble = 1 + 0.1 * ((assignment.trial.block * 7919) % 13) / 13
    return on(assignment, step_ms=slow * wobble ** (slow - 1))


def run_until_enough(held: Held, limit: int = 10_000) -> int:
    """Finish trials as they come; how many."""
    for number in range(limit):
        assignment = held.session.assign()
        if assignment is None:
            return number
        held.session.finish(assignment, paced(assignment))
    return limit


def test_blocks_come_until_it_is_enough_and_the_journal_shows_why(tmp_path: Path) -> None:
    text = AUTO + "blocks: {interval: 0.03, at_most: 40}\n"
    held = Held(tmp_path, text)
    ran = run_until_enough(held)
    assert held.blocks.done
    assert held.blocks.stop_decision is not None
    (record,) = held.lines("blocks_enough")
    assert record["blocks"] == held.blocks.stop_decision.blocks
    assert "± 3 %" in record["why"]
    assert 6 * 3 <= ran < 40 * 3
    assert ran == len(held.state().finished)
    assert held.state().stop_decision is not None
    second = held.killed(text)
    assert second.session.assign() is None
    assert second.blocks.done


def job_of(text: str, tmp_path: Path) -> tuple[Held, BlockSearch, Job]:
    held = Held(tmp_path, text)
    search = BlockSearch(held.session, ("/path",), held.recovery)
    handed = search.suggest("tune")
    assert isinstance(handed, dict)
    return held, search, job_adapter.validate_json(handed["job"])


def test_the_actor_is_asked_for_a_round_and_answers_with_all_of_it(tmp_path: Path) -> None:
    held, search, job = job_of(TIMED, tmp_path)
    assert job.timing == Timing(0.02, slice_s=0.5)
    asked = [job.request, *(rival.request for rival in job.rivals)]
    assert asked[0].implementation == "python/b", "the baseline is the one to compare with"
    assert {request.implementation for request in asked} == {"python/a", "python/b", "python/c"}
    assert {(request.measure, request.slice_s) for request in asked} == {("timing", 0.5)}
    assert len({json.dumps(dict(request.settings)) for request in asked}) == 1
    failed = Outcome("failed", 1.0, 2.0, failure=FailureRecord("error", "no"))
    outcomes = [Outcome("complete", 1.0, 2.0), failed, Outcome("complete", 1.0, 2.0)]
    recorded_trials = [outcome_adapter.dump_json(outcome).decode() for outcome in outcomes]
    search.on_trial_complete("tune", {"outcomes": recorded_trials, "done": True})
    assert [finished.outcome.status for finished in held.recorded] == [
        "complete",
        "failed",
        "complete",
    ]
    assert [finished.trial.arm.implementation for finished in held.recorded] == [
        request.implementation for request in asked
    ]
