"""How `rnnsweep run` ends: exit codes, and messages by stream."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.progress import PlainLines
from orchestrator.core.errors import Refusal
from orchestrator.core.stop_signal import Stopped
from orchestrator.hardware import classify
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.sweep import RunResult
from orchestrator.storage.tracking.errors import LeaseHeld, NotRecorded, TrackingError
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.sample_plans import node, plan
from tests.orchestrator.sample_records import paired

PLAN = plan(classify([node("a", cpu_model="CPU [red]A[/red] :smile:")]), blocks=9, repeats=1)
CONFIRM, BEGIN = "confirm", "begin"

Outcome = RunResult | BaseException


@pytest.fixture
def ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`rnnsweep run` with a sweep that ends like this after these steps: code, stdout, stderr."""

    def ends(outcome: Outcome, *steps: str) -> tuple[int, str, str]:
        def sweep(
            *args: Any,
            view: Callable[[Plan], PlainLines],
            confirm: Callable[[Plan, int], None],
            **kwargs: Any,
        ) -> RunResult:
            if CONFIRM in steps:
                confirm(PLAN, 16)
            if BEGIN in steps:
                view(PLAN)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr("orchestrator.scheduling.sweep.run_sweep", sweep)
        return run("run", "mine.yaml")

    return ends


@pytest.mark.parametrize(
    "error",
    [
        NotRecorded(3, "the store took longer than 10 s"),
        LeaseHeld("mine", "process 1 on elsewhere", 2e9),
        TrackingError("recorder process 7", "an answer", "none", "Its log: l"),
        Refusal("no"),
    ],
)
def test_what_ends_a_sweep_that_has_begun_is_exit_code_3(ends: Run, error: Exception) -> None:
    code, out, err = ends(error, BEGIN)
    assert (code, out) == (3, "")
    assert f"Stopped: {error}\nResume with: rnnsweep run mine.yaml" in err
    code, out, err = ends(error)
    assert (code, out) == (2, "")
    assert f"Error: {error}" in err


def test_an_unexpected_error_never_looks_like_failed_trials(ends: Run, home: Path) -> None:
    code, out, err = ends(KeyError("a\nbug"), BEGIN)
    assert (code, out) == (70, "")
    line, hint = err.splitlines()
    assert "internal error, KeyError: 'a\\nbug'" in line
    assert "report this bug" in line
    assert line.endswith("run.log")
    assert hint == "Finished trials are kept. Resume with: rnnsweep run mine.yaml"
    log = home / "sweeps" / "mine" / "run.log"
    assert "Traceback" in log.read_text()
    code, out, err = ends(RuntimeError("early"))
    assert (code, out) == (70, "")
    assert len(err.splitlines()) == 1
    assert "RuntimeError: early" in log.read_text()


def test_a_broken_pipe_within_the_sweep_is_no_success(ends: Run) -> None:
    assert ends(BrokenPipeError("Ray's"), BEGIN)[0] == 70


def test_a_signal_before_the_first_trial(ends: Run) -> None:
    code, _, err = ends(Stopped())
    assert (code, err) == (
        3,
        "Stopped before a trial was started. Resume with: rnnsweep run mine.yaml\n",
    )


def test_trials_that_mlflow_refuses_do_not_hold_up_the_report_of_the_others(ends: Run) -> None:
    code, out, err = ends(RunResult(paired(6), None, {"key": "too long"}), BEGIN)
    assert code == 1
    assert "tensorflow/portable+xla" in out
    assert "Warning: 1 finished trial is safe in the journal" in err
    assert "too long" in err


def test_what_is_announced(ends: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example")
    code, _, err = ends(RunResult(paired(6), None), CONFIRM)
    assert code == 0
    assert "2 of 18 trials are done" in err.splitlines()
    assert "CPU [red]A[/red] :smile:" in err
    assert "trials are recorded in https://me:***@mlflow.example" in err


WATCHED = """
import sys
from pathlib import Path
from orchestrator.cli.output import quiet
with quiet(Path(sys.argv[1])) as console:
    for line in range(10_000):
        console.print(line)
from orchestrator.cli.exit_codes import show
show("Resume\\n", err=True)
show("the report\\n")
Path(sys.argv[2]).touch()
raise SystemExit(1)
"""


def test_messages_that_nobody_reads_any_more_are_dropped(tmp_path: Path) -> None:
    log, end = tmp_path / "log", tmp_path / "end"
    command = [sys.executable, "-c", WATCHED, str(log), str(end)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"0\n"
        ran.stdout.close()
        assert ran.wait(60) == 1
    assert end.exists()
    assert log.read_text() == ""
