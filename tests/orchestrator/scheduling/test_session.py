"""A trial between blocks, journal and store."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.cli.progress import PlainLines
from orchestrator.core.arms import Arm, Usage
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import FinishedTrial, Outcome
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.scheduling.session import Session
from orchestrator.spec import parse
from orchestrator.storage.journal import Journal, Record, SweepOpened
from tests.orchestrator.sample_plans import blocks_of, identity, node, plan

SPEC = """
name: sweep
workload: own.module:run
settings: {epochs: 2, units: 1}
search: {sampler: random, configs: 3, space: {layers: [1, 2, 3]}}
arms: {implementations: [python/a], hardware: [cpu]}
limits: {attempts: 2}
"""
COMPLETE = Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": 0.5})


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    journal.append(SweepOpened(identity(), {}))
    return journal


def session(journal: Journal, text: str = SPEC) -> tuple[Session, list[FinishedTrial]]:
    recorded: list[FinishedTrial] = []
    laid = plan(classify([node("a")]), implementations=1, blocks=3)
    watcher = PlainLines(Console(quiet=True), laid)
    spec = parse(text, source="spec")
    return Session(spec, blocks_of(laid), journal, recorded.append, watcher, "digest"), recorded


def reopened(journal: Journal) -> Journal:
    journal.close()
    return Journal(journal.path.parent)


def test_the_journal_has_a_trial_before_anybody_else(journal: Journal) -> None:
    held, recorded = session(journal)
    assignment = held.assign()
    assert assignment is not None
    held.finish(assignment, COMPLETE)
    assert [finished.trial for finished in recorded] == [assignment.trial]
    with reopened(journal) as second:
        state = second.state
    assert state is not None
    assert list(state.blocks) == [0]
    assert state.finished[assignment.trial.key].outcome == COMPLETE


def test_what_a_trainer_is_asked_for(journal: Journal) -> None:
    held, _ = session(journal)
    assignment = held.assign()
    assert assignment is not None
    request = held.request(assignment.trial, "cpu")
    assert request.settings == {"epochs": 2, "units": assignment.trial.config["units"]}
    assert (request.seed, request.data_digest) == (assignment.trial.seed, "digest")


def test_an_arm_with_less_work_is_asked_for_less(journal: Journal) -> None:
    held, _ = session(journal)
    assignment = held.assign()
    assert assignment is not None
    short = replace(assignment.trial.arm.hardware, usage=Usage(settings={"epochs": 1}))
    less = replace(assignment.trial, arm=Arm("python/a", short))
    assert held.request(less, "cpu").settings == {"epochs": 1, "units": less.config["units"]}


def warnings_of(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, metric: str, hardware: str = "[cpu]"
) -> list[str]:
    """Return the warnings of a sweep with an objective; whole trainings have an accuracy."""
    warnings: list[str] = []
    monkeypatch.setattr(PlainLines, "warn", lambda self, text: warnings.append(text))
    text = SPEC.replace("3]}}", f"3]}}, objectives: {{{metric}: minimize}}}}")
    spec = parse(text.replace("hardware: [cpu]", f"hardware: {hardware}"), source="spec")
    laid = make_plan(spec, classify([node("a")]))
    blocks = blocks_of(laid, objectives=spec.search.objectives)
    watcher = PlainLines(Console(quiet=True), laid)
    held = Session(spec, blocks, journal, lambda _: None, watcher, "digest")
    for _ in range(2 * len(laid.arms)):
        assignment = held.assign()
        assert assignment is not None
        timed = assignment.trial.arm.measure == "timing"
        metrics = {"step_ms": 1.0} if timed else COMPLETE.metrics
        held.finish(assignment, replace(COMPLETE, metrics=metrics))
    return warnings


def test_an_objective_that_trials_lack_is_warned_of_once(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (warning,) = warnings_of(journal, monkeypatch, "los")
    assert "expected los" in warning
    assert "received val_accuracy" in warning


def test_nobody_is_warned_of_an_objective_that_does_not_read_the_arm(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardware = "[cpu, {class: cpu, measure: timing}]"
    assert warnings_of(journal, monkeypatch, "val_accuracy", hardware) == []


def test_a_full_disk_stops_the_sweep(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    held, recorded = session(journal)
    assignment = held.assign()
    assert assignment is not None

    def full(record: Record) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "append", full)
    with pytest.raises(Stopped, match="No space left"):
        held.finish(assignment, COMPLETE)
    assert recorded == [], "the store never has what the journal has not"
