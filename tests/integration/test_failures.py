"""Workloads that raise, crash, hang, diverge or exhaust memory: each becomes a recorded result."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.integration.sweeping import Home, wait_for

pytestmark = pytest.mark.full

NAME = "hostile"
REASONS = {  # by kernel: the reason, words of the message, words of the trainer's last output
    "raises": ("error", "the workload broke", "ZeroDivisionError"),
    "segfaults": ("crash", "SIGSEGV", "about to read address 0"),
    "hangs": ("hung", "limits.idle_s", ""),
    "nan": ("non_finite", "loss is nan", ""),
    "eats": ("out_of_memory", "limits.memory_mib allows 400", ""),
}


def test_each_failure_is_recorded_with_its_reason_and_output(joining: Home) -> None:
    spec = joining.spec(
        NAME,
        implementations=[f"python/{kernel}" for kernel in ("good", "picky", *REASONS)],
        limits={"idle_s": 2, "memory_mib": 400},
    )
    done = joining.run("run", spec).expect(1)
    assert "3 complete of 14 expected; 11 failed" in done.out
    joining.expect_exactly_once(NAME, 14)
    for run in joining.children(NAME):
        kernel, tags = run.data.params["kernel"], run.data.tags
        if kernel not in REASONS:
            expected = "failed" if (kernel, tags["block"]) == ("picky", "1") else "complete"
            assert tags["outcome"] == expected
            continue
        reason, message, output = REASONS[kernel]
        assert f"FAILED ({reason})" in done.err
        assert tags["failure"].startswith(f"{reason}: ") and message in tags["failure"]
        text = joining.artifact(run, "trainer_output.txt")
        assert reason in text and output in text
    report = joining.report(NAME)
    assert report["complete_blocks"] == [0]  # in block 1 `picky` failed
    assert len(report["set_aside"]) == len(REASONS)  # without one complete trial
    joining.expect_nothing_running()


def test_a_killed_actor_costs_an_attempt_and_too_many_fail_the_trial(home: Home) -> None:
    spec = home.spec("robbed", implementations=["python/waits"], limits={"attempts": 2})
    with home.running("run", spec) as command:
        for _ in range(3):
            kill_the_actor_of_a_trial(home)
        home.gate.touch()
        done = command.done().expect(1)
    assert done.err.count("attempt 1 was lost with its worker; retrying") == 2
    outcomes = {record["trial"]["block"]: record["outcome"] for record in home.finished("robbed")}
    assert outcomes[0]["failure"]["reason"] == "lost"
    assert (outcomes[1]["status"], outcomes[1]["attempt"]) == ("complete", 2)
    home.expect_exactly_once("robbed", 2)


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
