"""A sweep that is killed, suspended, out of disk or without its records has each trial once."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.storage.tracking.mlflow.mlflow_names import mlflow_tag
from orchestrator.storage.tracking.stored_records import LEASE, LEASE_TAG, RENEWAL_S
from tests.commands import Command, wait_for
from tests.faults.conftest import SCALE, Faults
from tests.integration.mixed import HELPER
from tests.integration.sweeping import Home, Json, new_home

pytestmark = pytest.mark.full

NAME = "survivor"
MOMENTS: dict[str, tuple[Callable[[Home], bool], int]] = {
    "a journal without a session, while the recorder opens the sweep": (
        lambda home: home.count(NAME, "sweep_opened") > home.count(NAME, "session_started"),
        3,
    ),
    "the first attempt": (lambda home: home.count(NAME, "block_suggested") > 0, 3),
    "the last trial, before it is recorded": (lambda home: len(home.finished(NAME)) == 6, 3),
    "the report, of one more config": (lambda home: home.count(NAME, "session_ended") > 0, 4),
}


def kill_at_any_moment(
    joining: Home, tmp_path: Path, draw: random.Random, kills: list[str]
) -> None:
    """Kill a driver at moments of its sweep, and lose its journal or its store at the end."""
    spec = joining.spec(NAME, {"sleep_s": 0.3}, sampler="tpe", limits={"attempts": 20})
    drawn = draw.sample(list(MOMENTS), 1 if SCALE <= 1 else len(MOMENTS))
    for name in (name for name in MOMENTS if name in drawn):
        moment, configs = MOMENTS[name]
        before = joining.finished(NAME)
        with joining.running("run", spec, "--set", f"search.configs={configs}") as command:
            wait_for(lambda: moment(joining) or not command.running)  # noqa: B023
            assert command.running, f"{name}: {command.done()}"
            time.sleep(draw.uniform(0, 0.05))
            command.send_signal(signal.SIGKILL)
            kills.append("driver")
            command.wait()
        joining.expect_nothing_running()
        assert joining.finished(NAME)[: len(before)] == before  # no finished trial is lost

    def complete() -> None:
        done = joining.run("run", spec, "--set", "search.configs=5").expect(0)
        assert "· 10 trials" in " ".join(done.out.split())
        joining.expect_exactly_once(NAME, 10)

    complete()
    assert joining.parents(NAME)[0].info.status == "FINISHED"
    finished = without_curves(joining)
    for lost in draw.sample(["journal", "store"], 1 if SCALE <= 1 else 2):
        if lost == "journal":  # MLflow alone restores trials and the blocks' configs
            runs = {run.info.run_id: run.data.to_dictionary() for run in joining.children(NAME)}
            shutil.rmtree(joining.sweep(NAME))
            complete()
            assert joining.count(NAME, "block_suggested") == 5
            kept = {run.info.run_id: run.data.to_dictionary() for run in joining.children(NAME)}
            assert kept == runs
        else:  # the journal alone restores the store
            joining.database.unlink()
            shutil.rmtree(joining.path / "mlartifacts")
            complete()
        assert without_curves(joining) == finished, lost


def without_curves(home: Home) -> Json:
    trials = {record["trial"]["key"]: record for record in home.finished(NAME)}
    for record in trials.values():
        telemetry = record["outcome"]["telemetry"]
        del telemetry["curves"], telemetry["at_s"]
    return trials


def suspend(joining: Home, tmp_path: Path, draw: random.Random, kills: list[str]) -> None:
    """Suspend a driver until another one has finished its sweep."""
    spec = joining.spec(NAME, {"sleep_s": 0.5}, configs=4)
    other, store = new_home(tmp_path / "other"), f"sqlite:///{joining.database}"
    other.database, begun = joining.database, draw.randrange(1, 4)
    with joining.running("run", spec) as command:
        wait_for(lambda: len(joining.finished(NAME)) >= begun or not command.running)
        assert command.running, command.done()
        driver, suspended_s = psutil.Process(command.pid), time.monotonic()
        driver.suspend()
        (parent,) = joining.parents(NAME)
        lapsed = replace(LEASE.load(parent.data.tags[mlflow_tag(LEASE_TAG)], ""), until_s=1.0)
        joining.client().set_tag(parent.info.run_id, mlflow_tag(LEASE_TAG), LEASE.dump(lapsed))
        other.run("run", spec, MLFLOW_TRACKING_URI=store).expect(0)
        time.sleep(max(0.0, RENEWAL_S + 1 - (time.monotonic() - suspended_s)))
        driver.resume()
        done = command.done().expect(3)
    assert f"pid {command.pid}" not in done.err and "Another machine" in done.err
    other.expect_exactly_once(NAME, 8)
    other.expect_nothing_running()
    assert (other.path / "sweeps").stat().st_mode & 0o777 == 0o700  # in a home that was there


def fill_the_disk(joining: Home, tmp_path: Path, draw: random.Random, kills: list[str]) -> None:
    """Fill the disk under a driver, which stops, and resumes when there is room."""
    with small_disk(tmp_path) as folder:
        home = new_home(folder, joining.address)
        spec = home.spec(NAME, implementations=["python/waits", "python/a"], configs=8)
        with home.running("run", spec) as command:
            wait_for(lambda: home.waiting.exists() or not command.running)
            assert command.running, command.done()
            ballast = folder / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):  # as the sweep writes, too, nobody knows the room
                    pass
            os.truncate(ballast, ballast.stat().st_size - draw.randrange(0, 20_000))
            home.gate.touch()
            done = command.done().expect(3)
        assert "Resume with: " in done.err
        assert "No space left" in done.err or "disk" in done.err
        before = home.finished(NAME)
        ballast.unlink()
        home.run("run", spec).expect(0)
        assert home.finished(NAME)[: len(before)] == before
        home.expect_exactly_once(NAME, 16)


@contextlib.contextmanager
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted here: that needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.timeout(1800 * max(1.0, SCALE))
@pytest.mark.parametrize("befalls", [kill_at_any_moment, suspend, fill_the_disk])
def test_whatever_befalls_a_driver_its_sweep_has_every_trial_once(
    joining: Home,
    tmp_path: Path,
    faults: Faults,
    kills: list[str],
    befalls: Callable[[Home, Path, random.Random, list[str]], None],
) -> None:
    draw, _ = faults(1, 1)
    befalls(joining, tmp_path, draw, kills)


KINDS: dict[str, dict[str, Any]] = {
    "trainings": {"settings": {"sleep_s": 0.3}, "sampler": "tpe"},
    "slices": {
        "workload": "tests.workloads.examples.slicing:steady",
        "settings": {"step_s": 0.01},
        "objectives": None,
        "implementations": ["none/a", "none/b"],
        "measure": {"mode": "timing", "slices": [6, 6], "slice_s": 0.05},
    },
}


def test_a_kill_leaves_no_process_that_a_trial_has_started(joining: Home) -> None:
    spec = joining.spec(NAME, implementations=["python/helped"], configs=3)
    with joining.running("run", spec) as command:
        for kind in ("trainer", "worker", "driver"):
            wait_for(lambda: len(helpers()) == 2 or not command.running)  # one starts in a daemon
            assert command.running, command.printed()
            left = helpers()
            for victim in victims(joining, command, kind):
                victim.kill()
            wait_for(lambda: not set(left) & set(helpers()), describe=lambda: f"{kind}: {left}")  # noqa: B023
    joining.expect_nothing_running()
    joining.gate.touch()
    joining.run("run", spec, "--retry-failed").expect(0)
    joining.expect_exactly_once(NAME, 3, retried=True)
    assert not helpers()


def helpers() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == list(HELPER)
    ]


@pytest.mark.timeout(1800 * max(1.0, SCALE))
@pytest.mark.parametrize("kind", KINDS)
def test_killed_trainers_and_workers_leave_every_trial_once(
    joining: Home, faults: Faults, kills: list[str], kind: str
) -> None:
    draw, most = faults(2, 3)
    limits = {"attempts": 100, "failures": None}
    configs, more = 6, 2
    spec = joining.spec(NAME, **{"configs": configs, **KINDS[kind], "limits": limits})
    while len(kills) < most:
        before = joining.finished(NAME)
        words = ("run", spec, "--retry-failed", "--set", f"search.configs={configs}")
        with joining.running(*words) as command:
            # else most of them would hit the driver, while it starts
            wait_for(lambda: trainers_at(str(joining.address)) or not command.running)
            assert kills or command.running, command.printed()
            while command.running and len(kills) < most:
                time.sleep(draw.uniform(0.1, 2.0))
                victim = draw.choice(FAMILY)
                if found := victims(joining, command, victim):
                    with contextlib.suppress(psutil.Error):
                        draw.choice(found).kill()
                        kills.append(victim)
            command.kill()
            assert command.wait() != 2, command.printed()  # refused, as it would be forever
        joining.expect_nothing_running()
        assert joining.finished(NAME)[: len(before)] == before, kills
        configs += more
    code = 1
    for _ in range(3):  # a trainer that was killed is a failed trial, to be tried again
        done = joining.run(*words)
        code = done.code
        if code == 0:
            break
    assert code == 0, (kills, done)
    joining.expect_exactly_once(NAME, 2 * (configs - more), retried=True)
    outcomes = {record["trial"]["key"]: record["outcome"] for record in joining.finished(NAME)}
    assert {outcome["status"] for outcome in outcomes.values()} == {"complete"}, kills
    wait_for(lambda: not trainers_at(str(joining.address)), describe=lambda: kills)


FAMILY = ("driver", "recorder", "worker", "reaper", "trainer", "trainer", "trainer")
"""What is killed; a trainer more often, because it is what users' code can end."""


def victims(home: Home, command: Command, kind: str) -> list[psutil.Process]:
    """Return the processes of a kind that run for a sweep."""
    if kind == "driver":
        return [psutil.Process(command.pid)] if command.running else []
    if kind == "recorder":
        words = "orchestrator.storage.tracking"
        return [process for process in home.processes() if words in command_of(process)]
    if kind == "worker":
        at_work = trainers_at(str(home.address))
        return [
            worker
            for worker in workers(str(home.address))
            if any(trainer in at_work for trainer in children_of(worker))
        ]
    processes = trainers_at(str(home.address))
    are_reapers = {p.pid for p in processes if any(child in processes for child in children_of(p))}
    return [process for process in processes if (process.pid in are_reapers) == (kind == "reaper")]


def trainers_at(address: str) -> list[psutil.Process]:
    """Return the trainers of a cluster on this machine, and their reapers."""
    return [
        process
        for worker in workers(address)
        for process in children_of(worker)
        if "-m workloads" in command_of(process)
    ]


def children_of(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return process.children(recursive=True)
    return []


def command_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def workers(address: str) -> list[psutil.Process]:
    """Return the worker processes of a Ray cluster on this machine, without Ray's own agents.

    Ray replaces the loopback address by another one of the machine, so the port tells. A node whose
    agent is killed ends.
    """
    end = f":{address.rpartition(':')[2]}"
    raylets = [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "raylet"
        and any(word.endswith(end) for word in process.info["cmdline"] or ())
    ]
    found = list[psutil.Process]()
    for raylet in raylets:
        with contextlib.suppress(psutil.Error):
            found += raylet.children()
    return [process for process in found if "Agent" not in command_of(process)]
