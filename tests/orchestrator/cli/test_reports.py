"""`rnnsweep report`: formats by a file's name, plots, and places that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from orchestrator.core.trial import Telemetry
from tests.lacking import skip_here
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.sample_hardware import on_cpu
from tests.orchestrator.sample_sweeps import finished, fresh_home
from tests.orchestrator.storage.tracking.recording import record


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store has a sweep of seven blocks on two arms, with telemetry."""
    made = fresh_home(tmp_path_factory.mktemp("reports"))
    seen = Telemetry(at_s=(0.0, 1.0), curves={"system/cpu_utilization_percentage": (10.0, 90.0)})
    arms = (
        finished().trial.arm,
        finished().trial.arm.__class__("tensorflow/portable+xla", on_cpu("X")),
    )
    record(made, *(finished(block, arm, telemetry=seen) for block in range(7) for arm in arms))
    return made


@pytest.fixture
def report(stored: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`rnnsweep report quickstart …`: code, stdout, stderr."""
    monkeypatch.setenv("RNNSWEEP_HOME", str(stored))
    return partial(run, "report", "quickstart")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("r.html", "<!doctype html>"),
        ("r.md", "# Sweep quickstart"),
        ("r.csv", "run_id,"),
        ("r.json", "{"),
        ("plain", "Sweep quickstart"),
        ("r.pdf --format text", "Sweep quickstart"),
    ],
)
def test_the_format_is_that_of_the_files_name(
    report: Run, tmp_path: Path, name: str, begins: str
) -> None:
    file, *options = name.split()
    target = tmp_path / "made" / file
    assert report("-o", str(target), *options) == (0, "", f"wrote {target}\n")
    assert target.read_text().lower().startswith(begins.lower())


def test_a_brief_report_is_the_beginning_of_the_whole(report: Run, tmp_path: Path) -> None:
    _, whole, _ = report()
    code, brief, _ = report("--brief")
    assert code == 0
    first = brief.index("Validity in short")
    assert whole.startswith(brief[:first].rstrip())
    assert "Speed-up over tensorflow/portable" in brief and "Arms" not in brief
    assert report("--brief", "-o", str(tmp_path / "r.md"))[0] == 0
    assert "## Validity in short" in (tmp_path / "r.md").read_text()


def test_text_is_coloured_where_colours_are_wanted(
    report: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[" not in report()[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in report()[1]
    assert "\x1b[" not in report("--format", "markdown")[1]
    assert report("-o", str(tmp_path / "r.txt"))[0] == 0
    assert "\x1b[" not in (tmp_path / "r.txt").read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in report()[1]


def test_plots_are_drawn_with_the_report(report: Run, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "plots"
    code, out, err = report("--plots", str(folder))
    assert code == 0
    assert out.startswith("Sweep quickstart")
    drawn = sorted(path.suffix for path in folder.iterdir())
    assert err == f"wrote {len(drawn)} files into {folder}\n"
    assert drawn.count(".png") == drawn.count(".svg") > 0


@pytest.mark.parametrize("arguments", [("-o", "/dev/null/r.html"), ("--plots", "/dev/null/plots")])
def test_a_place_that_cannot_be_written(report: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = report(*arguments)
    assert code == 2
    assert f"Error: {arguments[1]}: expected a place that can be written, received: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["report", "quickstart"], ["--help"]])
def test_a_full_disk_under_stdout_is_refused_without_a_traceback(
    stored: Path, arguments: list[str]
) -> None:
    if not Path("/dev/full").exists():
        skip_here("this machine has no /dev/full, to be used as a full disk")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", "from orchestrator.cli.main import main; main()", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RNNSWEEP_HOME": str(stored), "MLFLOW_TRACKING_URI": ""},
            cwd=Path(__file__).parents[3],
            check=False,
        )
    message = (
        "Error: stdout: expected a place that can be written, received: no space left on device"
    )
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, message)
    assert "Traceback" not in ended.stderr


def test_any_accuracy_can_be_a_target(report: Run) -> None:
    code, out, _ = report("--target", "0.5", "--format", "json")
    assert (code, [target["accuracy"] for target in json.loads(out)["targets"]]) == (0, [0.5])
    assert "To val_accuracy 0.5 and 0.7" in report("--target", "0.5", "--target", "0.7")[1]
    code, _, err = report("--target", "97")
    assert code == 2
    assert "'--target': 97.0 is not in the range 0<x<=1" in err
