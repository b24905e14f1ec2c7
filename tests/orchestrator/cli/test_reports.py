"""`rnnsweep report`: formats by a file's name, plots, and places that cannot be written."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.spec import load_spec
from orchestrator.storage.tracking import trial_table
from orchestrator.storage.tracking.tracker import Point
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_cpu_use
from tests.building.stores import build_home
from tests.building.trials import build_full_trial
from tests.documents import rnnsweep_commands
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.storage.tracking.recording import parent, record, tracker


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose store has a sweep of seven blocks on two arms."""
    made = build_home(tmp_path_factory.mktemp("reports"))
    arms = (PORTABLE, replace(XLA, hardware=build_cpu_use("X")))
    metrics = {**build_full_trial().metrics, "samples_per_s": 3_900.0}
    record(
        made,
        *(build_full_trial(block, arm, metrics=metrics) for block in range(7) for arm in arms),
    )
    return made


@pytest.fixture
def report(stored: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("RNNSWEEP_HOME", str(stored))
    return partial(run, "report", "quickstart")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("r.html", "<!doctype html>"),
        ("plain", "quickstart · "),
        ("r.pdf --format text", "quickstart · "),
        ("r.md --section cost", "# quickstart · "),
    ],
)
def test_the_format_is_that_of_the_files_name(
    report: Run, tmp_path: Path, name: str, begins: str
) -> None:
    file, *options = name.split()
    target = tmp_path / file
    assert report("-o", str(target), *options) == (0, "", f"wrote {target}\n")
    assert target.read_text().lower().startswith(begins.lower())


def test_the_reading_commands_of_the_documents_run(run: Run, report: Run) -> None:
    reading = {"report", "query", "best", "status"}
    for arguments in rnnsweep_commands():
        if arguments[0] in reading and "--address" not in arguments:
            code, _, err = run(*arguments)
            assert code == 0, (arguments, err)


def test_text_is_coloured_where_colours_are_wanted(
    report: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_coloured(*options: str) -> bool:
        return "\x1b[" in report(*options)[1]

    assert not is_coloured()
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert is_coloured() and not is_coloured("--format", "markdown")
    report("-o", str(tmp_path / "r.txt"))
    assert "\x1b[" not in (tmp_path / "r.txt").read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_coloured()


def test_plots_are_drawn_with_the_report(report: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plots"
    code, out, err = report("--plots", str(folder))
    assert code == 0 and out.startswith("quickstart · ")
    drawn = [path.suffix for path in folder.iterdir()]
    assert err == f"wrote {len(drawn)} files into {folder}\n"
    assert drawn.count(".png") == drawn.count(".svg") > 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-o", "none/r.html"), 2),
        (("--plots", "/dev/null/plots"), 2),
        (("-o", "/dev/full"), 3),  # there may be room later
    ],
)
def test_a_place_that_cannot_be_written(
    report: Run, arguments: tuple[str, ...], expected: int
) -> None:
    code, _, err = report(*arguments)
    assert code == expected and "Traceback" not in err
    assert f"{arguments[1]}: " in err
    assert not Path("none").exists()


def test_sweeps_are_listed_and_the_latest_one_is_reported(
    stored: Path, report: Run, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = {"trials": 14, "trials_expected": 14, "trials_failed": 0}
    points = [Point(name, number, 0, 0) for name, number in metrics.items()]
    store, run_id = tracker(stored), parent(stored).run_id
    with monkeypatch.context() as only_parents:
        store.log(run_id, params={"nodes": "node-1"}, points=points)
        only_parents.setattr(trial_table, "read_trials", mock.Mock(side_effect=AssertionError))
        (row,) = json.loads(run("status", "--format", "json")[1])["sweeps"]
        assert "quickstart" in run("status")[1]
    counts = {name: row["trials"][name] for name in ("ended", "expected", "failed")}
    assert counts == {"ended": 14, "expected": 14, "failed": 0}
    assert (row["sweep"], row["state"], row["nodes"], row["kept_in"]) == (
        "quickstart",
        "complete",
        ["node-1"],
        ["store"],
    )
    assert run("report", "--full")[1] == report("--full")[1]


@pytest.mark.parametrize("arguments", [["report", "quickstart"], ["--help"]])
def test_a_full_disk_under_stdout_is_refused_without_a_traceback(
    stored: Path, arguments: list[str]
) -> None:
    environ = {**os.environ, "RNNSWEEP_HOME": str(stored), "MLFLOW_TRACKING_URI": ""}
    command = [sys.executable, "-m", "orchestrator", *arguments]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environ, check=False
        )
    message = "stdout: no space left on device"
    assert ended.returncode == 3 and "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"Error: {message}")


def test_the_best_config_becomes_a_spec(run: Run, report: Run, tmp_path: Path) -> None:
    path = tmp_path / "best.yml"
    limits = ("--min", "val_accuracy=0.5", "--max", "loss=0.25")
    assert run("best", "quickstart", *limits, "-o", str(path))[0] == 0
    assert load_spec(path).search.listed[0]["units"] == 32
    assert json.loads(run("best", "quickstart", "--format", "json")[1])["values"]["loss"] == 0.25


def test_the_best_config_has_the_code_that_puts_it_to_use(run: Run, report: Run) -> None:
    command = ("best", "quickstart", "--arm", "tensorflow/portable", "--code")
    code, out, _ = run(*command)
    head, *lines = out.splitlines()
    assert code == 0
    assert run(*command, "-o", "model.py")[0] == 0
    assert Path("model.py").read_text() == out
    assert head.startswith("# tensorflow/portable on ") and "units 32" in head
    assert any("jit_compile=False" in line for line in lines)
