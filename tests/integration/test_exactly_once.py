"""A sweep killed at any moment, or robbed of its records, ends with every trial exactly once."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.integration.sweeping import Home, Json, wait_for

NAME = "survivor"
CHANCE = random.Random(20261121)
MIDDLE = CHANCE.choice([2, 3, 4])


def is_opening(home: Home) -> bool:
    """The recorder opens the sweep: the journal is there, no session yet."""
    return home.count(NAME, "sweep_opened") > home.count(NAME, "session_started")


def has_first_attempt(home: Home) -> bool:
    return home.count(NAME, "attempt_started") > 0


def is_in_the_middle(home: Home) -> bool:
    return len(home.finished(NAME)) >= MIDDLE


def has_last_trial(home: Home) -> bool:
    """All trials ended; the recorder is some milliseconds behind."""
    return len(home.finished(NAME)) == 6


def is_reporting(home: Home) -> bool:
    return home.count(NAME, "session_ended") > 0


MOMENTS: list[tuple[Callable[[Home], bool], int]] = [
    (is_opening, 3),
    (has_first_attempt, 3),
    (is_in_the_middle, 3),
    (has_last_trial, 3),
    (is_reporting, 4),  # one config more than before, so that there is a session to end
]


def test_a_sweep_killed_five_times_has_every_trial_once(home: Home) -> None:
    spec = home.spec(NAME, settings={"sleep_s": 0.3}, search={"sampler": "tpe"})
    for moment, configs in MOMENTS:
        before = home.finished(NAME)
        with home.running("run", spec, "--set", f"search.configs={configs}") as command:
            wait_for(lambda: moment(home) or not command.running, 60)  # noqa: B023
            assert command.running, f"{moment.__name__}: {command.wait()}"
            time.sleep(CHANCE.uniform(0, 0.05))
            command.send(signal.SIGKILL)
            command.wait()
        home.expect_nothing_running()
        assert home.finished(NAME)[: len(before)] == before  # nothing that had ended is lost

    done = home.run("run", spec, "--set", "search.configs=4").expect(0)
    assert "8 complete of 8 expected" in done.out
    home.expect_exactly_once(NAME, 8)
    (parent,) = home.parents(NAME)
    assert parent.info.status == "FINISHED"

    forget_the_journal(home, spec)
    forget_the_store(home, spec)


def forget_the_journal(home: Home, spec: Path) -> None:
    """From MLflow alone: what is done stays done, and blocks keep their configs."""
    before = {run.info.run_id: run.data.to_dictionary() for run in home.children(NAME)}
    finished = without_curves(home)
    shutil.rmtree(home.sweep(NAME))
    home.run("run", spec, "--set", "search.configs=4").expect(0)
    home.expect_exactly_once(NAME, 8)
    assert without_curves(home) == finished
    assert home.count(NAME, "attempt_started") == 0
    assert home.count(NAME, "block_suggested") == 4
    after = {run.info.run_id: run.data.to_dictionary() for run in home.children(NAME)}
    assert after == before


def without_curves(home: Home) -> Json:
    """What the journal has of each trial, less the telemetry's curves: these stay in MLflow."""
    found = {each["trial"]["key"]: each for each in home.finished(NAME)}
    for each in found.values():
        telemetry = each["outcome"]["telemetry"]
        del telemetry["curves"], telemetry["at_s"]
    return found


def forget_the_store(home: Home, spec: Path) -> None:
    """From the journal alone: MLflow is made again, with nothing run."""
    keys = {each["trial"]["key"] for each in home.finished(NAME)}
    home.database.unlink()
    shutil.rmtree(home.path / "mlartifacts")
    done = home.run("run", spec, "--set", "search.configs=4").expect(0)
    assert "8 complete of 8 expected" in done.out
    home.expect_exactly_once(NAME, 8)
    assert {each["trial"]["key"] for each in home.finished(NAME)} == keys
    assert home.count(NAME, "attempt_started") == 0
