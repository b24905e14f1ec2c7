"""Workloads that raise, crash, hang, diverge or exhaust memory: each becomes a recorded result."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.sweeping import Home, new_home, wait_for

pytestmark = pytest.mark.full

NAME = "hostile"
REASONS = {  # by kernel: the reason, words of the message, words of the trainer's last output
    "raises": ("error", "the workload broke", "ZeroDivisionError"),
    "segfaults": ("crash", "SIGSEGV", "about to read address 0"),
    "hangs": ("hung", "limits.idle_s", ""),
    "nan": ("non_finite", "loss is nan", ""),
    "eats": ("out_of_memory", "limits.memory_mib allows 400", ""),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, address: str) -> Home:
    """A home with a finished sweep of one arm that trains and six that may fail."""
    home = new_home(tmp_path_factory.mktemp(NAME), address)
    spec = home.spec(
        NAME,
        arms={"implementations": [f"python/{kernel}" for kernel in ("good", "picky", *REASONS)]},
        limits={"idle_s": 2, "memory_mib": 400},
    )
    done = home.run("run", spec).expect(1)
    assert "3 complete of 14 expected; 11 failed" in done.out
    for reason, message, _ in REASONS.values():
        assert f"FAILED ({reason})" in done.err
        assert message in done.err
    home.expect_nothing_running()
    return home


def test_each_failure_is_recorded_with_its_reason_and_output(hostile: Home) -> None:
    hostile.expect_exactly_once(NAME, 14)
    by_kernel: dict[str, list[Any]] = {}
    for run in hostile.children(NAME):
        by_kernel.setdefault(run.data.params["kernel"], []).append(run)
    for run in by_kernel.pop("good"):
        assert (run.info.status, run.data.tags["outcome"]) == ("FINISHED", "complete")
    (fitting, too_large) = sorted(by_kernel.pop("picky"), key=lambda run: run.data.tags["block"])
    assert (fitting.info.status, too_large.info.status) == ("FINISHED", "FAILED")
    assert set(by_kernel) == set(REASONS)
    for kernel, runs in by_kernel.items():
        reason, message, output = REASONS[kernel]
        assert len(runs) == 2
        for run in runs:
            assert (run.info.status, run.data.tags["outcome"]) == ("FAILED", "failed")
            assert run.data.tags["failure"].startswith(f"{reason}: ")
            assert message in run.data.tags["failure"]
            text = hostile.artifact(run, "trainer_output.txt")
            assert reason in text
            assert output in text


def test_a_block_with_a_failed_arm_is_not_complete(hostile: Home) -> None:
    report = hostile.report(NAME)
    assert report["complete_blocks"] == [0]  # in block 1 `picky` failed
    assert len(report["set_aside"]) == len(REASONS)  # without one complete trial
    assert report["sweep"]["trials"]["failed"] == 11
    assert [
        len(comparison["pairs"]) for comparison in report["comparisons"] if comparison["pairs"]
    ] == [1]
    status = hostile.run("status", NAME).expect(0).out
    assert status.startswith(f"{NAME}: complete\n  14 of 14 trials ended (3 complete, 11 failed)")


def test_a_killed_actor_costs_an_attempt_and_too_many_fail_the_trial(home: Home) -> None:
    spec = home.spec("robbed", arms={"implementations": ["python/waits"]}, limits={"attempts": 2})
    with home.running("run", spec) as command:
        for _ in range(3):
            kill_the_actor_of_a_trial(home)
        home.gate.touch()
        done = command.wait().expect(1)
    assert done.err.count("attempt 1 was lost with its worker; retrying") == 2
    outcomes = {record["trial"]["block"]: record["outcome"] for record in home.finished("robbed")}
    assert outcomes[0]["failure"]["reason"] == "lost"
    assert (outcomes[1]["status"], outcomes[1]["attempt"]) == ("complete", 2)
    home.expect_exactly_once("robbed", 2)


def test_a_lost_node_costs_no_trial_an_attempt(home: Home) -> None:
    spec = home.spec("stranded", arms={"implementations": ["python/waits"]}, limits={"attempts": 1})
    with home.running("run", spec) as command:
        wait_for(home.waiting.exists, 60)
        (raylet,) = (process for process in home.processes() if process.name() == "raylet")
        raylet.send_signal(signal.SIGTERM)  # as `ray stop` or a preempted node does
        done = command.wait(60).expect(3)
    assert "Stopped, because the Ray cluster has lost" in done.err
    assert f"Resume with: rnnsweep run {spec}" in done.err
    assert home.finished("stranded") == []


def kill_the_actor_of_a_trial(home: Home) -> None:
    """Kill the Ray worker whose trainer waits, and wait until both are gone."""
    home.waiting.unlink(missing_ok=True)
    wait_for(home.waiting.exists, 60)
    (trainer,) = (process for process in home.processes() if is_trainer(process))
    actor = trainer.parent()
    assert actor is not None
    assert actor.cmdline()[0].startswith("ray::")
    actor.send_signal(signal.SIGKILL)
    wait_for(lambda: not trainer.is_running(), 10)
    home.waiting.unlink(missing_ok=True)


def is_trainer(process: psutil.Process) -> bool:
    command = process.cmdline()
    return "-m" in command and "workloads" in command and Path(command[0]).stem != "ray"
