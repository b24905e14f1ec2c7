"""Requests, commands and failures: in this process, and as far as pipes and signals matter in one
of their own."""

import math
import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.commands import wait_for
from tests.ordinary_user import OrdinaryUser
from tests.workloads.shared_trainer import (
    HOSTILE,
    Trainer,
    failure,
    request,
    result,
    run_by_hand,
    single_event,
)
from workloads import process, trainer
from workloads.own_code import read_code
from workloads.protocol import (
    Artifact,
    Epoch,
    Event,
    Failure,
    Finish,
    KernelProof,
    PhaseBegan,
    PhaseEnded,
    Ready,
    Resting,
    Result,
    RoundCommand,
    Slice,
    SliceDone,
    TrialRequest,
    encode_message,
)
from workloads.trainer import Lines, answer_request
from workloads.turns import Turns, step_seconds

ATTACHED = ("--die-with-parent", str(os.getpid()))
SLICING = "tests.workloads.examples.slicing"
SLICE, FINISH = encode_message(Slice()), encode_message(Finish())


@pytest.fixture(autouse=True)
def _environment_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "environment_for", lambda *_: {})
    monkeypatch.setattr(
        trainer, "versions_in_use", lambda _: ""
    )  # else the versions of pytest, too


def run(*texts: str) -> tuple[list[int], list[Event]]:
    lines, claim, events = Lines(), process.BackendClaim(), list[Event]()
    for text in (*texts, None):
        lines.received.put(text)
    return [answer_request(line, events.append, claim, lines) for line in lines], events


def ask(workload: str, implementation: str = "none/noop", **fields: Any) -> list[Event]:
    return run(encode_message(TrialRequest(workload, implementation, **fields)))[1]


def timing(name: str, **settings: Any) -> str:
    own = {"step_s": 1e-4, **settings}
    return encode_message(TrialRequest(f"{SLICING}:{name}", "none/one", own, measure="timing"))


def ends(events: list[Event]) -> list[Result | Failure]:
    return [event for event in events if isinstance(event, Result | Failure)]


class ExampleFailure(NamedTuple):
    """An example workload, the kind of its failure, and a part of the message."""

    name: str
    kind: str
    message: str


EXAMPLE_FAILURES = [
    ExampleFailure(name="raises", kind="error", message="RuntimeError: the workload broke"),
    ExampleFailure(
        name="no_such_function",
        kind="bad_request",
        message="no function 'no_such_function' in",
    ),
]


@pytest.mark.parametrize("case", EXAMPLE_FAILURES, ids=lambda case: case.name)
def test_a_failure_is_an_event_and_the_process_continues(case: ExampleFailure) -> None:
    statuses, events = run(request(case.name), request("noop"))
    failed, noop = ends(events)
    assert isinstance(failed, Failure)
    assert failed.kind == case.kind
    assert case.message in failed.message
    if case.name == "raises":
        assert "ZeroDivisionError" in failed.detail and "hostile.py" in failed.detail
        first, place, call = failed.message.splitlines()
        assert re.search(r", at tests/workloads/examples/hostile\.py:\d+$", first)
        assert place.endswith(", in raises") and "raise RuntimeError(" in call
    assert (statuses, type(noop)) == ([1, 0], Result)


@pytest.mark.parametrize(
    ("code", "phase"),
    [
        pytest.param("trial.begin('predict'); 1 / 0", "predict: ", id="inside a phase"),
        pytest.param("trial.end(trial.begin('predict')); 1 / 0", "", id="after a phase"),
        pytest.param("trial.begin('load'); trial.turns.none", "load: ", id="another phase"),
    ],
)
def test_a_failure_names_its_phase(code: str, phase: str) -> None:
    failed = failure(ask(f"{HOSTILE}:runs", settings={"code": code}))
    error = "AttributeError" if "none" in code else "ZeroDivisionError"
    assert failed.message.startswith(f"{phase}{error}: ")


class ImpossibleRequest(NamedTuple):
    """A request, the kind of its failure, and a part of the message."""

    name: str
    workload: str
    implementation: str
    kind: str
    message: str
    fields: Mapping[str, Any] = {}


IMPOSSIBLE_REQUESTS = [
    ImpossibleRequest(
        name="a misspelt workload",
        workload="image_row",
        implementation="tensorflow/portable",
        kind="bad_request",
        message="did you mean 'image_rows'",
    ),
    ImpossibleRequest(
        name="a wrong setting",
        workload="image_rows",
        implementation="torch/fused",
        fields={"settings": {"units": 0}},
        kind="bad_request",
        message="settings.units:",
    ),
    ImpossibleRequest(
        name="a module that is not there in a package that is",
        workload="tests.no_such:run",
        implementation="none/noop",
        kind="bad_request",
        message="no module 'tests.no_such' on",
    ),
    ImpossibleRequest(
        name="a number format that a CPU lacks",
        workload="image_rows",
        implementation="tensorflow/portable+tf32",
        kind="not_possible",
        message="on cpu: TF32 is a number",
    ),
    ImpossibleRequest(
        name="other data than was asked for",
        workload="image_rows",
        implementation="tensorflow/portable",
        fields={"data_digest": "0"},
        kind="data",
        message="of the sweep (0)",
    ),
]


@pytest.mark.parametrize("case", IMPOSSIBLE_REQUESTS, ids=lambda case: case.name)
def test_a_request_that_cannot_be_run_is_explained(case: ImpossibleRequest) -> None:
    failed = failure(ask(case.workload, case.implementation, **case.fields))
    assert failed.kind == case.kind
    assert case.message in failed.message


def test_a_trial_of_code_that_was_edited_before_or_later_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    text = "def run(trial):\n    if trial.settings:\n        import late\n    return {'loss': 0}\n"
    (tmp_path / "imports_late.py").write_text(text)
    (tmp_path / "late.py").touch()
    code = read_code("imports_late:run")
    assert code is not None and "late.py" in code.digests
    assert result(ask("imports_late:run", code=code.digests))
    edited = ask("imports_late:run", code={**code.digests, "late.py": "0" * 16})
    (tmp_path / "late.py").write_text("edited = True\n")
    for events in (edited, ask("imports_late:run", settings={"is": 1}, code=code.digests)):
        assert failure(events).kind == "bad_request" and "(late.py)" in failure(events).message


def test_a_process_has_one_backend_and_device() -> None:
    statuses, events = run(request("noop"), request("noop", device="gpu"))
    assert statuses == [0, 1]
    message = "runs only none on cpu: start another process for none on gpu"
    assert message in failure(events).message


def test_a_users_workload_trains() -> None:
    settings = {"units": 24, "epochs": 15}
    events = ask("tests.workloads.examples.echo_memory:run", settings=settings, seed=5)
    metrics = result(events)
    assert metrics["accuracy"] > 0.95
    assert min(metrics["load_s"], metrics["peak_rss_mib"] - 10) > 0
    assert single_event(events, KernelProof).ran == "loop"
    assert single_event(events, Artifact).name == "echoes.txt"
    assert [event.index for event in events if isinstance(event, Epoch)] == list(range(15))
    spans = [event for event in events if isinstance(event, PhaseEnded) and event.phase == "train"]
    assert metrics["train_s"] == pytest.approx(sum(span.seconds for span in spans))
    times = [event.at_s for event in events if isinstance(event, PhaseBegan | PhaseEnded)]
    assert times == sorted(times)
    assert times[-1] <= time.monotonic(), "the clock that all processes of a machine share"


def test_a_users_workload_takes_slices() -> None:
    _, events = run(timing("steady", spread=0.1), SLICE, encode_message(Slice(7)), SLICE, FINISH)
    window = [PhaseBegan, PhaseEnded, SliceDone]
    assert [type(event) for event in events if not isinstance(event, Resting)] == [
        Ready, *window * 3, KernelProof, Result,
    ]  # fmt: skip
    done = [event for event in events if isinstance(event, SliceDone)]
    assert [event.steps for event in done] == [500, 7, 500]
    assert single_event(events, Ready).slice_steps == 500
    metrics = result(events)
    assert (metrics["slices"], metrics["slice_steps"]) == (3, 1007 / 3)
    assert metrics["step_ms"] == pytest.approx(1_000 * step_seconds(done))
    assert metrics["timed_s"] == pytest.approx(sum(event.seconds for event in done))
    assert "train_s" not in metrics


def test_trial_runs_that_are_not_recorded_choose_the_steps_of_a_slice() -> None:
    events, seconds, compiled = list[Event](), list[float](), set[int]()
    commands = iter(list[RoundCommand]([Slice(), Finish()]))
    turns = Turns(events.append, commands.__next__, measure="timing", slice_s=0.25)
    for steps in turns.slices(None, lambda: sum(seconds)):
        seconds.append(0.01 * steps + (steps not in compiled))  # each number is compiled
        compiled.add(steps)
    assert [type(event) for event in events] == [Ready, Resting, SliceDone, Resting]
    assert single_event(events, Ready).slice_steps == single_event(events, SliceDone).steps == 25


def test_what_the_warm_up_left_is_released_while_the_others_work() -> None:
    """A release in a turn would hold up all trials: TensorFlow's iterators take seconds."""
    left, living = type("Left", (), {})(), list[bool]()
    left.cycle, reference = left, weakref.ref(left)
    del left

    def next_command() -> RoundCommand:
        living.append(reference() is not None)
        return Slice()

    Turns(lambda _: None, next_command).rest()
    assert living == [False]


def test_a_request_to_finish_that_comes_too_late_changes_nothing() -> None:
    statuses, events = run(request("noop"), FINISH, request("noop"))
    assert statuses == [0, 0, 0]
    ended = [event for event in events if isinstance(event, Result)]
    assert [(end.pruned, end.metrics["val_accuracy"]) for end in ended] == [(False, 0.5)] * 2


class BrokenProtocol(NamedTuple):
    """A workload in slices, the commands that it receives, and a part of the failure's message."""

    name: str
    workload: str
    commands: list[str]
    message: str


BROKEN_PROTOCOLS = [
    BrokenProtocol(
        name="the workload forgets its slices",
        workload="forgets",
        commands=[],
        message="Loop over trial.slices",
    ),
    BrokenProtocol(
        name="the workload stops early",
        workload="stops_early",
        commands=['{"command": "slice"}'],
        message="before all slices were done",
    ),
    BrokenProtocol(
        name="the workload reports no slice",
        workload="reports_no_slice",
        commands=['{"command": "slice"}', '{"command": "slice"}'],
        message="needs a phase `train`, or one call of trial.slice(steps, sec",
    ),
    BrokenProtocol(
        name="finish before a slice",
        workload="steady",
        commands=['{"command": "finish"}'],
        message="before its first slice",
    ),
    BrokenProtocol(
        name="an unknown command",
        workload="steady",
        commands=['{"command": "go"}'],
        message="received 'go'",
    ),
]


@pytest.mark.parametrize("case", BROKEN_PROTOCOLS, ids=lambda case: case.name)
def test_a_trial_that_breaks_the_slice_protocol_fails_with_advice(case: BrokenProtocol) -> None:
    """Commands that come too late are dropped: the next trial runs."""
    statuses, events = run(timing(case.workload), *case.commands, timing("steady"), SLICE, FINISH)
    failed, steady = ends(events)
    assert isinstance(failed, Failure) and case.message in failed.message
    assert isinstance(steady, Result)
    assert sum(statuses) == 1


def test_a_trial_in_slices_fails_at_the_end_of_its_input_and_a_full_one_has_none() -> None:
    for commands in ([], [SLICE]):
        statuses, events = run(timing("steady"), *commands)
        assert (statuses, failure(events).kind) == ([1], "bad_request")
        assert "it ended: send at least one slice, and finish" in failure(events).message
    failed = failure(ask(f"{SLICING}:steady", "none/one"))
    assert "trial.slices is for trials with trial.measure 'timing'" in failed.message
    turns = Turns(lambda _: None, Finish, measure="timing")
    with pytest.raises(ValueError, match="received 3 steps and nan s"):
        turns.report_slice(3, math.nan)
    with pytest.raises(ValueError, match="at least 1 step; received 0"):
        next(turns.slices(0, float))
    list(turns.slices(1, float))
    with pytest.raises(RuntimeError, match="only one loop"):
        next(turns.slices(1, float))


def test_nothing_but_events_reaches_standard_output() -> None:
    status, events, errors = run_by_hand(request("prints"), "", request("threads"))
    assert status == 0
    assert [type(event) for event in events] == [Result, *[Epoch] * 32, Result]
    for text in ("666", "from the file descriptor", "from C", "from a child process"):
        assert text in errors
    assert isinstance(events[0], Result) and events[0].metrics["read_bytes"] == 0


def test_the_exit_status_is_that_of_the_worst_request() -> None:
    status, events, _ = run_by_hand("no request", request("raises"), request("noop"))
    kinds = [event.kind if isinstance(event, Failure) else "" for event in events]
    assert (status, kinds) == (2, ["bad_request", "error", "", ""])


def test_interrupts_end_it_by_hand_only() -> None:
    code, events, _ = run_by_hand(request("interrupts"), request("noop"))
    assert code == 130
    assert [event.message for event in events if isinstance(event, Failure)] == ["interrupted"]
    with Trainer(*ATTACHED) as attached:
        assert failure(attached.ask(f"{HOSTILE}:interrupts")).message == "interrupted"
        attached.process.send_signal(signal.SIGINT)  # the parent decides what Ctrl-C means
        assert result(attached.ask(f"{HOSTILE}:noop"))
        (child,) = psutil.Process(attached.process.pid).children(recursive=True)
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text("ascii").strip() == "1000"


@pytest.mark.parametrize(
    "lines",
    [[request("spins")], [timing("steady")]],
    ids=["a busy trial", "waiting for a slice"],
)
def test_an_attached_trainer_ends_with_standard_input(lines: list[str]) -> None:
    with Trainer(*ATTACHED) as attached:
        attached.ask(f"{HOSTILE}:noop")
        for line in lines:
            attached.send(line)
        time.sleep(0.2)
        assert attached.process.stdin is not None
        attached.process.stdin.close()
        assert attached.process.wait(timeout=60) == 0
        attached.process.stdin = None


PARENT = """
import os, signal, subprocess, sys
words = [sys.executable, "-m", "workloads", "--die-with-parent", str(os.getpid())]
child = subprocess.Popen(words, stdin=int(sys.argv[1]), start_new_session=True)
print(child.pid, flush=True)
sys.stdin.readline()
if sys.argv[2] == "ends":
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ending", ["is killed", "ends"])
def test_all_processes_of_a_trial_die_with_the_parent_of_its_trainer(
    ordinary_user: OrdinaryUser, own_folder: Path, ending: str
) -> None:
    file = own_folder / "pid"
    line = request("leaves_daemon", settings={"file": str(file), "hangs": True})
    reader, writer = os.pipe()  # it stays open here: the end of the input ends no trainer
    with subprocess.Popen(
        [*ordinary_user.ours, sys.executable, "-c", PARENT, str(reader), ending],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[reader],
        text=True,
    ) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        child = psutil.Process(int(parent.stdout.readline()))
        os.write(writer, f"{line}\n".encode())
        wait_for(lambda: file.exists() and file.read_text("ascii"))
        daemon = psutil.Process(int(file.read_text("ascii")))
        assert daemon.uids().real == ordinary_user.uid
        family = [child, *child.children(recursive=True)]
        assert daemon in family
        parent.stdin.write("\n")
        parent.stdin.flush()
        _, alive = psutil.wait_procs(family, timeout=60)
        for process in alive:
            process.kill()
        os.close(writer)
        os.close(reader)
        assert not alive


def test_a_trainer_starts_with_no_parent_that_has_ended() -> None:
    with Trainer("--die-with-parent", "1", stderr=subprocess.PIPE) as orphan:
        _, errors = orphan.process.communicate(timeout=300)
        assert orphan.process.returncode == 1
        assert "parent 1 is gone" in errors
