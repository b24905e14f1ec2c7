from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.workloads.shared_trainer import (
    HOSTILE,
    Trainer,
    failure,
    request,
    result,
    run_by_hand,
    single_event,
)
from workloads.protocol import Epoch, Failure, KernelProof, PhaseBegan, PhaseEnded, Result

ATTACHED = ("--die-with-parent", str(os.getpid()))


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("raises", "error", "RuntimeError: the workload broke"),
        ("raises_in_phase", "error", "RuntimeError: broke while training"),
        ("exits", "error", "SystemExit: 7"),
        ("not_possible", "not_possible", "this needs hardware that nobody has"),
        ("no_data", "data", "the data is not here"),
        ("nan_epoch", "non_finite", "epoch 1: expected finite metrics; loss is nan"),
        ("nan_result", "non_finite", "result: expected finite metrics; loss is inf"),
        ("returns_nothing", "error", "expected a mapping of metric names to numbers; received N"),
        ("returns_words", "error", "expected metrics that are numbers; could not convert"),
        ("no_such_function", "bad_request", "expected a function 'no_such_function' in"),
    ],
)
def test_a_failure_is_an_event_and_the_process_continues(
    light: Trainer, name: str, kind: str, message: str
) -> None:
    failed = failure(light.ask(f"{HOSTILE}:{name}"))
    assert failed.kind == kind
    assert message in failed.message
    if name == "raises":
        assert "ZeroDivisionError" in failed.detail and "hostile.py" in failed.detail
    assert result(light.ask(f"{HOSTILE}:noop"))["val_accuracy"] == 0.5


@pytest.mark.parametrize(
    ("workload", "implementation", "fields", "message"),
    [
        ("image_row", "tensorflow/portable", {}, "did you mean 'image_rows'"),
        ("image_rows", "tensorflow/cudn", {}, "implementation: expected a kernel among portable"),
        ("image_rows", "tensorflow", {}, "implementation: expected backend/kernel[+option…]"),
        ("image_rows", "torch/fused", {"settings": {"units": 0}}, "settings.units: Input should"),
        (f"{HOSTILE}:noop", "none/noop", {"seed": -1}, "request.seed: Input should be greater"),
        ("no_such_package.train:run", "none/noop", {}, "no module 'no_such_package' on this"),
        ("tests.workloads.no_such:run", "none/noop", {}, "no module 'tests.workloads.no_such'"),
    ],
)
def test_a_request_that_cannot_be_run_is_explained(
    light: Trainer, workload: str, implementation: str, fields: dict[str, Any], message: str
) -> None:
    failed = failure(light.ask(workload, implementation, **fields))
    assert failed.kind == "bad_request"
    assert message in failed.message


def test_a_process_has_one_backend_and_device(light: Trainer) -> None:
    light.ask(f"{HOSTILE}:noop")
    failed = failure(light.ask(f"{HOSTILE}:noop", device="gpu"))
    assert failed.kind == "bad_request"
    assert "runs none on cpu, fixed by its first trial; received none on gpu" in failed.message


def test_nothing_but_events_reaches_standard_output() -> None:
    status, events, errors = run_by_hand(request("prints"), request("threads"))
    assert status == 0
    assert [type(event) for event in events] == [Result, *[Epoch] * 32, Result]
    for text in ("666", "from the file descriptor", "from C", "from a child process"):
        assert text in errors
    assert isinstance(events[0], Result) and events[0].metrics["read_bytes"] == 0


def test_a_thread_cannot_report_in_the_next_trial() -> None:
    status, events, errors = run_by_hand(request("late_thread"), request("noop"))
    assert status == 0
    assert [type(event) for event in events] == [Result, Epoch, Result]
    assert "dropped, its trial is over" in errors


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([request("noop")], 0),
        ([request("noop"), "", request("noop")], 0),
        ([], 0),
        ([request("raises"), request("noop")], 1),
        (["no request", request("raises")], 2),
        (['{"workload": "noop"}', request("noop")], 2),
    ],
)
def test_the_exit_status_is_that_of_the_worst_request(lines: list[str], status: int) -> None:
    answered = [line for line in lines if line]
    code, events, _ = run_by_hand(*lines)
    assert code == status
    assert sum(isinstance(event, Result | Failure) for event in events) == len(answered)


def test_a_users_workload_trains(light: Trainer) -> None:
    workload, settings = "tests.workloads.examples.echo_memory:run", {"units": 24, "epochs": 15}
    before = time.monotonic()
    events = light.ask(workload, settings=settings, seed=5)
    after = time.monotonic()
    metrics = result(events)
    assert metrics["accuracy"] > 0.95
    assert min(metrics["load_s"], metrics["peak_rss_mib"] - 10) > 0
    assert single_event(events, KernelProof).ran == "loop"
    assert [event.index for event in events if isinstance(event, Epoch)] == list(range(15))
    spans = [event for event in events if isinstance(event, PhaseEnded) and event.phase == "train"]
    assert metrics["train_s"] == pytest.approx(sum(span.seconds for span in spans))
    times = [event.at_s for event in events if isinstance(event, PhaseBegan | PhaseEnded)]
    assert times == sorted(times), "phases are read from the machine's monotonic clock"
    assert before <= times[0] and times[-1] <= after


@pytest.mark.parametrize(
    ("name", "status"), [("segfaults", -signal.SIGSEGV), ("dies", -signal.SIGSEGV), ("leaves", 3)]
)
def test_a_crash_ends_only_the_trainer(name: str, status: int) -> None:
    code, events, _ = run_by_hand(request(name), request("noop"))
    assert (code, events) == (status, [])


def test_interrupts_end_it_by_hand_only() -> None:
    code, events, _ = run_by_hand(request("interrupts"), request("noop"))
    assert code == 130
    assert [event.message for event in events if isinstance(event, Failure)] == ["interrupted"]
    with Trainer(*ATTACHED) as attached:
        assert failure(attached.ask(f"{HOSTILE}:interrupts")).message == "interrupted"
        attached.process.send_signal(signal.SIGINT)  # the parent decides what Ctrl-C means
        assert result(attached.ask(f"{HOSTILE}:noop"))
        if sys.platform == "linux":
            score = Path(f"/proc/{attached.process.pid}/oom_score_adj").read_text("ascii")
            assert score.strip() == "1000"


def test_a_hanging_trial_ends_with_standard_input_when_attached() -> None:
    for name in ("sleeps", "spins"):
        with Trainer(*ATTACHED) as attached:
            attached.ask(f"{HOSTILE}:noop")
            attached.send(request(name))
            time.sleep(0.2)
            assert attached.process.stdin is not None
            attached.process.stdin.close()
            assert attached.process.wait(timeout=10) == 0
            attached.process.stdin = None


def test_a_trainer_dies_with_its_parent() -> None:
    line = request("sleeps_deaf")
    code = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'workloads', '--die-with-parent',"
        " str(os.getpid())], stdin=subprocess.PIPE)\n"
        f"child.stdin.write({(line + chr(10)).encode()!r}); child.stdin.flush()\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    # A copy of the pipe's writing end stays open here: only the parent-death signal can end it.
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        writer = os.open(f"/proc/{parent.pid}/fd/{_stdin_of(child)}", os.O_WRONLY)
        time.sleep(1.0)  # until the trial hangs
        parent.kill()
        _, alive = psutil.wait_procs([child], timeout=10)
        os.close(writer)
        assert not alive


def test_a_trainer_whose_parent_has_ended_does_not_start() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workloads", "--die-with-parent", "1"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "parent 1 is gone" in done.stderr


def _stdin_of(child: psutil.Process) -> int:
    """Return the parent's descriptor for the pipe of the child's standard input."""
    pipe = Path(f"/proc/{child.pid}/fd/0").readlink()
    parent = child.parent()
    assert parent is not None
    for entry in Path(f"/proc/{parent.pid}/fd").iterdir():
        if entry.readlink() == pipe:
            return int(entry.name)
    raise AssertionError("the parent has closed the pipe")
