"""Ctrl-C, SIGTERM, a lost head and lost workers: no process remains, and a sweep resumes."""

import os
import signal
from typing import Any

import pytest

from tests.commands import Command, wait_for
from tests.integration.sweeping import Home, cluster, kill_whole

NAME = "stoppable"
WAITS: dict[str, Any] = {"implementations": ["python/a", "python/waits"]}


def test_a_stopped_sweep_leaves_no_process_and_the_same_command_finishes_and_extends_it(
    home: Home,
) -> None:
    spec = home.spec(NAME, **WAITS)
    with home.running("run", spec) as command:
        wait_until_it_waits(home, command)
        names = {process.info["name"] for process in home.processes()}
        assert {"rnnsweep", "raylet", "gcs_server"} <= names  # all of these must be gone at the end
        command.send_signal(signal.SIGINT)
        done = command.done().expect(3)
    home.expect_nothing_running()
    assert done.out == ""
    assert "a second Ctrl-C stops at once" in done.err
    assert f"Resume with: rnnsweep run {spec}" in done.err
    (parent,) = home.parents(NAME)
    assert (parent.info.status, parent.data.tags["state"]) == ("KILLED", "stopped")
    ended = home.finished(NAME)
    home.expect_exactly_once(NAME, len(ended))
    assert home.run("status", NAME).expect(0).out.startswith(f"{NAME}: stopped")

    home.gate.touch()
    done = home.run("run", spec, "--set", "repeats=2").expect(0)
    assert "· 8 trials" in " ".join(done.out.split())
    home.expect_exactly_once(NAME, 8)
    assert home.finished(NAME)[: len(ended)] == ended
    metrics = [record["outcome"]["metrics"] for record in home.finished(NAME)]
    niceness = {values["niceness"] for values in metrics}
    assert niceness == {os.nice(0)}, "no trial has a lower priority"


def test_a_running_sweep_is_not_started_again_and_a_second_signal_stops_it_at_once(
    home: Home,
) -> None:
    spec = home.spec(NAME, **WAITS)
    with home.running("run", spec) as command:
        wait_until_it_waits(home, command)
        home.run("run", spec).refused(f"pid {command.pid}", "rnnsweep status")
        assert "running (pid" in home.run("status", NAME).expect(0).out
        assert command.running
        command.send_signal(signal.SIGTERM)  # works like SIGINT, even after Ray has set its own
        wait_for(lambda: "a second Ctrl-C" in command.printed(2))
        command.send_signal(signal.SIGINT)
        done = command.done().expect(3)
    assert (
        f"Stopped at once; finished trials are kept. Resume with: rnnsweep run {spec}\n" in done.err
    )
    home.expect_nothing_running()


def wait_until_it_waits(home: Home, command: Command) -> None:
    home.waiting.unlink(missing_ok=True)
    wait_for(lambda: home.waiting.exists() or not command.running)
    assert command.running, command.done()


@pytest.mark.full
def test_a_signal_before_ray_is_up(home: Home) -> None:
    spec = home.spec(NAME)
    with home.running("run", spec) as command:
        wait_for((home.sweep(NAME) / "recorder.log").exists)
        command.send_signal(signal.SIGTERM)
        done = command.done().expect(3)
    assert (done.out, home.finished(NAME)) == ("", [])
    assert f"Resume with: rnnsweep run {spec}" in done.err
    home.expect_nothing_running()


@pytest.mark.full
def test_a_lost_head_stops_the_sweep(home: Home, ray_token: None) -> None:
    spec = home.spec(NAME, **WAITS)
    with cluster() as (address, head), home.running("run", spec, "--address", address) as command:
        wait_until_it_waits(home, command)
        kill_whole(head, "gcs_server")
        done = command.done().expect(3)
    assert "the head of the Ray cluster has not answered for 25 seconds" in done.err
    assert f"Resume with: rnnsweep run {spec} --address {address}" in done.err
    home.expect_exactly_once(NAME, len(home.finished(NAME)))
