"""A trial between blocks, journal and store."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.progress import PlainLines
from orchestrator.core.arms import Arm, Usage
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Outcome
from orchestrator.storage.journal import Record
from tests.orchestrator.sample_specs import OWN, spec_text
from tests.orchestrator.scheduling.sample_sessions import Held

TRIED = {**OWN, "settings": {"epochs": 2, "units": 1}, "limits": {"attempts": 2}}
SPEC = spec_text(TRIED)
COMPLETE = Outcome("complete", 0.0, 1.0, metrics={"val_accuracy": 0.5})


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path, SPEC)


def test_the_journal_has_a_trial_before_anybody_else(held: Held) -> None:
    assignment = held.assign()
    held.session.finish(assignment, COMPLETE)
    assert [finished.trial for finished in held.recorded] == [assignment.trial]
    state = held.killed(SPEC).state()
    assert list(state.blocks) == [0]
    assert state.finished[assignment.trial.key].outcome == COMPLETE


def test_a_trainer_is_asked_for_the_config_and_the_work_of_the_arm(held: Held) -> None:
    trial = held.assign().trial
    request = held.session.request(trial, "cpu")
    assert request.settings == {"epochs": 2, "units": 1, **trial.config}
    assert (request.seed, request.data_digest) == (trial.seed, "digest")
    short = replace(trial.arm.hardware, usage=Usage(settings={"epochs": 1}))
    less = held.session.request(replace(trial, arm=Arm("python/a", short)), "cpu")
    assert less.settings == {**request.settings, "epochs": 1}


@pytest.mark.parametrize(
    ("metric", "hardware", "warned"),
    [("los", ["cpu"], 1), ("val_accuracy", ["cpu", {"class": "cpu", "measure": "timing"}], 0)],
)
def test_an_objective_that_the_arms_it_reads_lack_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, hardware: list[Any], warned: int
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(PlainLines, "warn", lambda self, text: warnings.append(text))
    held = Held(tmp_path, spec_text(TRIED, objectives={metric: "minimize"}, hardware=hardware))
    for _ in range(2 * len(held.plan.arms)):
        assignment = held.assign()
        timed = assignment.trial.arm.measure == "timing"
        metrics = {"step_ms": 1.0} if timed else COMPLETE.metrics
        held.session.finish(assignment, replace(COMPLETE, metrics=metrics))
    assert len(warnings) == warned
    assert all("expected los" in text and "received val_accuracy" in text for text in warnings)


def test_a_full_disk_stops_the_sweep(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    assignment = held.assign()

    def full(record: Record) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(held.journal, "append", full)
    with pytest.raises(Stopped, match="No space left"):
        held.session.finish(assignment, COMPLETE)
    assert held.recorded == [], "the store never has what the journal has not"
