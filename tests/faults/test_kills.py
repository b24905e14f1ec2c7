"""A sweep that is killed at any moment, or loses its records, has every trial exactly once."""

import contextlib
import shutil
import signal
import time
from collections.abc import Callable

import psutil
import pytest

from tests.commands import wait_for
from tests.faults.conftest import Faults
from tests.integration.sweeping import Home, Json

pytestmark = pytest.mark.full

NAME = "survivor"
VICTIMS = ("rnnsweep", "orchestrator.storage.tracking", "ray::")
"""The driver, the recorder and an actor, by what is in their command."""
MOMENTS: dict[str, tuple[Callable[[Home], bool], int]] = {
    "a journal without a session, while the recorder opens the sweep": (
        lambda home: home.count(NAME, "sweep_opened") > home.count(NAME, "session_started"),
        3,
    ),
    "the first attempt": (lambda home: home.count(NAME, "block_suggested") > 0, 3),
    "the last trial, before it is recorded": (lambda home: len(home.finished(NAME)) == 6, 3),
    "the report, of one more config": (lambda home: home.count(NAME, "session_ended") > 0, 4),
}


@pytest.mark.timeout(900)
def test_a_sweep_killed_at_any_moment_has_every_trial_once(joining: Home, faults: Faults) -> None:
    draw, rounds = faults(1, 2)
    spec = joining.spec(NAME, {"sleep_s": 0.3}, sampler="tpe", limits={"attempts": 20})
    for name, (moment, configs) in MOMENTS.items():
        before = joining.finished(NAME)
        with joining.running("run", spec, "--set", f"search.configs={configs}") as command:
            wait_for(lambda: moment(joining) or not command.running, 60)  # noqa: B023
            assert command.running, f"{name}: {command.done()}"
            time.sleep(draw.uniform(0, 0.05))
            command.send_signal(signal.SIGKILL)
            command.wait()
        joining.expect_nothing_running()
        assert joining.finished(NAME)[: len(before)] == before  # no finished trial is lost

    for configs in range(8, 8 + 4 * rounds, 4):
        before = joining.finished(NAME)
        words = ("run", spec, "--set", f"search.configs={configs}")
        with joining.running(*words) as command:
            wait_for(lambda: len(joining.finished(NAME)) > len(before), 60)  # noqa: B023
            time.sleep(draw.uniform(0, 1))
            victim = draw.choice(VICTIMS)
            for process in [*joining.processes(), *workers(str(joining.address))]:
                with contextlib.suppress(psutil.Error):
                    if any(victim in word for word in process.cmdline()[:4]):
                        process.kill()
            time.sleep(draw.uniform(0, 1))
            command.send_signal(signal.SIGKILL)
            command.wait()
        joining.expect_nothing_running()
        assert joining.finished(NAME)[: len(before)] == before, victim

    def complete() -> None:
        done = joining.run("run", spec, "--set", f"search.configs={configs}").expect(0)
        assert f"{2 * configs} of {2 * configs} trials complete" in done.out
        joining.expect_exactly_once(NAME, 2 * configs)

    complete()
    assert joining.parents(NAME)[0].info.status == "FINISHED"
    runs = {run.info.run_id: run.data.to_dictionary() for run in joining.children(NAME)}
    finished = without_curves(joining)

    shutil.rmtree(joining.sweep(NAME))  # MLflow alone restores trials and the blocks' configs
    complete()
    assert without_curves(joining) == finished
    assert joining.count(NAME, "block_suggested") == configs
    assert {run.info.run_id: run.data.to_dictionary() for run in joining.children(NAME)} == runs

    joining.database.unlink()  # the journal alone restores the store
    shutil.rmtree(joining.path / "mlartifacts")
    complete()
    assert without_curves(joining) == finished


def workers(address: str) -> list[psutil.Process]:
    """Return the worker processes of a Ray cluster on this machine."""
    raylets = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "raylet" and address in str(process.info["cmdline"])
    ]
    return [child for raylet in raylets for child in raylet.children()]


def without_curves(home: Home) -> Json:
    trials = {record["trial"]["key"]: record for record in home.finished(NAME)}
    for record in trials.values():
        telemetry = record["outcome"]["telemetry"]
        del telemetry["curves"], telemetry["at_s"]
    return trials
