"""Ctrl-C and SIGTERM: exit code 3, no process remains, and the same command resumes."""

from __future__ import annotations

import signal

import pytest

from tests.integration.sweeping import Command, Home, cluster, kill_whole, wait_for

NAME = "stoppable"


def test_a_signal_stops_a_sweep_and_the_same_command_finishes_it(home: Home) -> None:
    spec = home.spec(NAME, arms={"implementations": ["python/a", "python/waits"]})
    with home.running("run", spec) as command:
        wait_until_it_waits(home, command)
        names = {process.name() for process in home.processes()}
        assert {"rnnsweep", "raylet", "gcs_server"} <= names  # all of these must be gone at the end
        expect_a_second_driver_refused(home, command)
        command.send(signal.SIGINT)
        done = command.wait(15).expect(3)
    home.expect_nothing_running()
    assert done.out == ""
    assert "a second Ctrl-C stops at once" in done.err
    assert f"Resume with: rnnsweep run {spec}" in done.err
    (parent,) = home.parents(NAME)
    assert (parent.info.status, parent.data.tags["state"]) == ("KILLED", "stopped")
    ended = home.finished(NAME)
    home.expect_exactly_once(NAME, len(ended))
    assert home.run("status", NAME).expect(0).out.startswith(f"{NAME}: stopped")

    with home.running("run", spec) as command:
        wait_until_it_waits(home, command)
        command.send(signal.SIGTERM)  # works like SIGINT, even after Ray has set its own handler
        wait_for(lambda: command.has_printed("a second Ctrl-C"), 10)
        command.send(signal.SIGINT)
        done = command.wait(5)  # at once
        assert done.code == 3
        assert "Traceback" not in done.err
    home.expect_nothing_running()

    home.gate.touch()
    done = home.run("run", spec, "--set", "repeats=2").expect(0)  # and repeats extend it
    assert "8 complete of 8 expected" in done.out
    home.expect_exactly_once(NAME, 8)
    assert home.finished(NAME)[: len(ended)] == ended


def wait_until_it_waits(home: Home, command: Command) -> None:
    """Wait until a trial is in its trainer."""
    home.waiting.unlink(missing_ok=True)
    wait_for(lambda: home.waiting.exists() or not command.running, 90)
    assert command.running, command.wait()


def expect_a_second_driver_refused(home: Home, first: Command) -> None:
    """Check that a second driver is refused, and that `status` does not disturb the first."""
    spec = home.path.parent / f"{NAME}.yaml"
    home.run("run", spec).refused(f"pid {first.process.pid}", "rnnsweep status")
    assert "running (pid" in home.run("status").expect(0).out
    assert first.running


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_ray_is_up(home: Home, number: signal.Signals) -> None:
    spec = home.spec(NAME)
    with home.running("run", spec) as command:
        wait_for((home.sweep(NAME) / "recorder.log").exists, 30)
        command.send(number)
        done = command.wait(30).expect(3)
    assert done.out == ""
    assert f"Resume with: rnnsweep run {spec}" in done.err
    home.expect_nothing_running()
    assert home.finished(NAME) == []


HEADLESS = "headless"


@pytest.mark.full
def test_a_lost_head_stops_the_sweep_and_the_next_start_finishes_it(
    home: Home, ray_token: None
) -> None:
    spec = home.spec(HEADLESS, arms={"implementations": ["python/a", "python/waits"]})
    with (
        cluster() as (address, head),
        home.running("run", spec, "--address", address) as command,
    ):
        wait_until_it_waits(home, command)
        kill_whole(head, "gcs_server")
        done = command.wait(90).expect(3)
    assert "the head of the Ray cluster has not answered for 25 seconds" in done.err
    assert f"Resume with: rnnsweep run {spec} --address {address}" in done.err
    ended = home.finished(HEADLESS)
    home.gate.touch()
    with cluster() as (address, _):
        done = home.run("run", spec, "--address", address).expect(0)
    assert "4 complete of 4 expected" in done.out
    home.expect_exactly_once(HEADLESS, 4)
    assert home.finished(HEADLESS)[: len(ended)] == ended
