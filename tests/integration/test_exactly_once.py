"""A sweep that is killed at any moment, or loses its records, has every trial exactly once."""

import random
import shutil
import signal
import time
from collections.abc import Callable

import pytest

from tests.commands import wait_for
from tests.integration.sweeping import Home, Json

pytestmark = pytest.mark.full

NAME = "survivor"
CHANCE = random.Random(20261121)
MOMENTS: dict[str, tuple[Callable[[Home], bool], int]] = {
    "a journal without a session, while the recorder opens the sweep": (
        lambda home: home.count(NAME, "sweep_opened") > home.count(NAME, "session_started"),
        3,
    ),
    "the first attempt": (lambda home: home.count(NAME, "block_suggested") > 0, 3),
    "the last trial, before it is recorded": (lambda home: len(home.finished(NAME)) == 6, 3),
    "the report, of one more config": (lambda home: home.count(NAME, "session_ended") > 0, 4),
}


def test_a_sweep_killed_four_times_has_every_trial_once(joining: Home) -> None:
    spec = joining.spec(NAME, {"sleep_s": 0.3}, sampler="tpe")
    for name, (moment, configs) in MOMENTS.items():
        before = joining.finished(NAME)
        with joining.running("run", spec, "--set", f"search.configs={configs}") as command:
            wait_for(lambda: moment(joining) or not command.running, 60)  # noqa: B023
            assert command.running, f"{name}: {command.done()}"
            time.sleep(CHANCE.uniform(0, 0.05))
            command.send_signal(signal.SIGKILL)
            command.wait()
        joining.expect_nothing_running()
        assert joining.finished(NAME)[: len(before)] == before  # no finished trial is lost

    def complete() -> None:
        done = joining.run("run", spec, "--set", "search.configs=4").expect(0)
        assert "8 of 8 trials complete" in done.out
        joining.expect_exactly_once(NAME, 8)

    complete()
    assert joining.parents(NAME)[0].info.status == "FINISHED"
    runs = {run.info.run_id: run.data.to_dictionary() for run in joining.children(NAME)}
    finished = without_curves(joining)

    shutil.rmtree(joining.sweep(NAME))  # MLflow alone restores trials and the blocks' configs
    complete()
    assert without_curves(joining) == finished
    assert joining.count(NAME, "block_suggested") == 4
    assert {run.info.run_id: run.data.to_dictionary() for run in joining.children(NAME)} == runs

    joining.database.unlink()  # the journal alone restores the store
    shutil.rmtree(joining.path / "mlartifacts")
    complete()
    assert without_curves(joining) == finished


def without_curves(home: Home) -> Json:
    trials = {record["trial"]["key"]: record for record in home.finished(NAME)}
    for record in trials.values():
        telemetry = record["outcome"]["telemetry"]
        del telemetry["curves"], telemetry["at_s"]
    return trials
