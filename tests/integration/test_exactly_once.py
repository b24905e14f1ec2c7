"""A sweep that is killed at any moment, or loses its records, has every trial exactly once."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.sweeping import Home, Json, wait_for

pytestmark = pytest.mark.full

NAME = "survivor"
CHANCE = random.Random(20261121)
MIDDLE = CHANCE.choice([2, 3, 4])


MOMENTS: dict[str, tuple[Callable[[Home], bool], int]] = {
    "a journal without a session, while the recorder opens the sweep": (
        lambda home: home.count(NAME, "sweep_opened") > home.count(NAME, "session_started"),
        3,
    ),
    "the first attempt": (lambda home: home.count(NAME, "block_suggested") > 0, 3),
    "the middle": (lambda home: len(home.finished(NAME)) >= MIDDLE, 3),
    "the last trial, before it is recorded": (lambda home: len(home.finished(NAME)) == 6, 3),
    "the report, of one more config": (lambda home: home.count(NAME, "session_ended") > 0, 4),
}


def test_a_sweep_killed_five_times_has_every_trial_once(home: Home) -> None:
    spec = home.spec(NAME, settings={"sleep_s": 0.3}, search={"sampler": "tpe"})
    for name, (moment, configs) in MOMENTS.items():
        before = home.finished(NAME)
        with home.running("run", spec, "--set", f"search.configs={configs}") as command:
            wait_for(lambda: moment(home) or not command.running, 60)  # noqa: B023
            assert command.running, f"{name}: {command.wait()}"
            time.sleep(CHANCE.uniform(0, 0.05))
            command.send(signal.SIGKILL)
            command.wait()
        home.expect_nothing_running()
        assert home.finished(NAME)[: len(before)] == before  # no finished trial is lost

    done = home.run("run", spec, "--set", "search.configs=4").expect(0)
    assert "8 complete of 8 expected" in done.out
    home.expect_exactly_once(NAME, 8)
    (parent,) = home.parents(NAME)
    assert parent.info.status == "FINISHED"

    expect_restored_from_mlflow(home, spec)
    expect_restored_from_the_journal(home, spec)


def expect_restored_from_mlflow(home: Home, spec: Path) -> None:
    """Delete the journal: MLflow alone restores finished trials and the blocks' configs."""
    before = {run.info.run_id: run.data.to_dictionary() for run in home.children(NAME)}
    finished = without_curves(home)
    shutil.rmtree(home.sweep(NAME))
    home.run("run", spec, "--set", "search.configs=4").expect(0)
    home.expect_exactly_once(NAME, 8)
    assert without_curves(home) == finished
    assert home.count(NAME, "block_suggested") == 4
    after = {run.info.run_id: run.data.to_dictionary() for run in home.children(NAME)}
    assert after == before


def without_curves(home: Home) -> Json:
    """Return the journal's trials without the telemetry's curves, which only MLflow keeps."""
    trials = {record["trial"]["key"]: record for record in home.finished(NAME)}
    for record in trials.values():
        telemetry = record["outcome"]["telemetry"]
        del telemetry["curves"], telemetry["at_s"]
    return trials


def expect_restored_from_the_journal(home: Home, spec: Path) -> None:
    """Delete the store: the journal alone restores it without running a trial."""
    keys = {record["trial"]["key"] for record in home.finished(NAME)}
    home.database.unlink()
    shutil.rmtree(home.path / "mlartifacts")
    done = home.run("run", spec, "--set", "search.configs=4").expect(0)
    assert "8 complete of 8 expected" in done.out
    home.expect_exactly_once(NAME, 8)
    assert {record["trial"]["key"] for record in home.finished(NAME)} == keys
