"""How `rnnsweep run` ends: exit codes, and messages by stream."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from orchestrator.cli.progress import PlainLines
from orchestrator.core.caller import called_by_command
from orchestrator.core.errors import Refusal
from orchestrator.core.stop_signal import Stopped
from orchestrator.hardware import classify
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.sweep import RunOptions, RunResult
from orchestrator.spec import SweepSpec
from orchestrator.storage.tracking.tracking_errors import NotRecorded
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_node
from tests.building.records import build_paired_record, build_record
from tests.building.scheduling import build_plan
from tests.building.trials import build_trial
from tests.orchestrator.cli.typed_commands import Run, read_events

PLAN = build_plan(
    classify([build_node("a", cpu_model="CPU [red]A[/red] :smile:")]), blocks=9, repeats=1
)
RESUME = "Resume with: rnnsweep run mine.yaml"


class Ends(Protocol):
    def __call__(
        self, outcome: RunResult | BaseException, *options: str, begun: bool = True
    ) -> tuple[int, str, str]: ...


@pytest.fixture
def ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """`rnnsweep run` with a sweep that is announced, may begin, and ends like this."""

    def ends(
        outcome: RunResult | BaseException, *options: str, begun: bool = True
    ) -> tuple[int, str, str]:
        def sweep(
            _: SweepSpec,
            options: RunOptions,
            *,
            view: Callable[[Plan], PlainLines],
            announce: Callable[[Plan, int], None],
            **__: Any,
        ) -> RunResult:
            announce(PLAN, 16)
            if begun:
                view(PLAN)
            if isinstance(outcome, BaseException):
                raise outcome
            return replace(outcome, record=replace(outcome.record, start=options.start))

        monkeypatch.setattr("orchestrator.scheduling.sweep.run_checked_sweep", sweep)
        return run("run", "mine.yaml", *options)

    return ends


@pytest.mark.parametrize(
    "error",
    [
        NotRecorded(3, "the store took longer than 10 s"),
        Refusal("no"),
    ],
)
def test_what_ends_a_sweep_that_has_begun_is_exit_code_3(ends: Ends, error: Exception) -> None:
    with called_by_command():
        text = str(error)
    code, out, err = ends(error)
    assert (code, out) == (3, "") and f"Stopped: {text}\n{RESUME}" in err
    code, out, err = ends(error, begun=False)
    assert (code, out) == (2, "") and f"Error: {text}" in err


def test_an_unexpected_error_never_looks_like_failed_trials(ends: Ends, home: Path) -> None:
    code, out, err = ends(KeyError("a\nbug"))
    assert (code, out) == (70, "")
    *_, line, hint = err.splitlines()
    assert "internal error, KeyError: 'a\\nbug'" in line and line.endswith("run.log")
    assert hint == f"Finished trials are kept. {RESUME}"
    code, _, err = ends(RuntimeError("early"), begun=False)
    assert code == 70 and RESUME not in err
    log = (home / "sweeps" / "mine" / "run.log").read_text()
    assert "Traceback" in log and "RuntimeError: early" in log
    assert ends(BrokenPipeError("Ray's"))[0] == 70, "no pipe of ours"


def test_scripts_get_the_report_alone_or_with_events(ends: Ends) -> None:
    code, out, err = ends(RunResult(build_paired_record(6), None), "--quiet")
    assert (code, err) == (0, "") and "tensorflow/portable+xla" in out
    code, out, err = ends(RunResult(build_paired_record(6), None), "--json-progress")
    loading, plan, *_, end = read_events(err)
    assert (code, loading["event"], end["exit_code"]) == (0, "message", 0)
    assert (plan["sweep"], plan["missing"], plan["trials"]) == ("mine", 16, 18)
    assert "tensorflow/portable+xla" in out
    for error, expected in ((Refusal("no"), 2), (KeyError("a bug"), 70), (Stopped(), 3)):
        *_, end = read_events(ends(error, "--json-progress", begun=False)[2])
        assert (end["event"], end["exit_code"]) == ("end", expected)
    assert "Error: no" in ends(Refusal("no"), "--quiet", begun=False)[2], "not in its form"


def test_a_signal_before_the_first_trial(ends: Ends) -> None:
    code, _, err = ends(Stopped(), begun=False)
    assert code == 3 and err.endswith(f"Stopped before a trial was started. {RESUME}\n")


def test_the_announcement_and_the_report_with_trials_that_mlflow_refuses(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example")
    code, out, err = ends(RunResult(build_paired_record(6), None))
    assert code == 0 and "tensorflow/portable+xla" in out
    assert "2 of 18 trials are done" in err.splitlines()
    assert "CPU [red]A[/red] :smile:" in err
    assert "trials are recorded in https://me:***@mlflow.example" in err
    code, out, err = ends(RunResult(build_paired_record(6), None, {"key": "too long"}))
    assert code == 1 and "tensorflow/portable+xla" in out
    assert "1 finished trial" in err and "too long" in err


def test_failed_trials_and_a_stop_have_exit_codes_and_the_command_that_resumes(ends: Ends) -> None:
    failed = build_record(
        [build_trial(0, PORTABLE), build_trial(0, XLA, status="failed", failure="error: broke")]
    )
    assert ends(RunResult(failed, None))[0] == 1
    code, out, err = ends(RunResult(failed, Stopped("a node is lost")))
    assert code == 3 and out.startswith("quickstart · ")
    assert "a node is lost" in err and RESUME in err
    broken = build_record([build_trial(0, PORTABLE, status="failed", failure="error: it")])
    assert ends(RunResult(broken, None))[0] == 1
    assert ends(RunResult(broken, Stopped("")))[:2] == (3, "")  # nothing to report yet


WATCHED = """
import sys
from pathlib import Path
from orchestrator.cli.output import quiet
with quiet(Path(sys.argv[1])) as console:
    for line in range(10_000):
        console.print(line)
from orchestrator.cli.messages import show
show("Resume\\n", err=True)
show("the report\\n")
raise SystemExit(1)
"""


def test_messages_that_nobody_reads_any_more_are_dropped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", WATCHED, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"0\n"
        ran.stdout.close()
        assert ran.wait(60) == 1
    assert log.read_text() == "", "no traceback"
