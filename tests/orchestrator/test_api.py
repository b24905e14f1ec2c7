"""The Python interface: its documented examples, its arguments, and how light it is to import."""

import doctest
import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import Mock

import pytest

import rnnsweep
from orchestrator import api
from orchestrator.core.errors import Refusal
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Block, make_trial
from orchestrator.hardware import classify
from orchestrator.scheduling.sweep import RunOptions, RunResult
from orchestrator.scheduling.watcher import Watcher
from orchestrator.spec import SpecError, SweepSpec, parse_spec
from tests.building.arms import PORTABLE, XLA
from tests.building.hardware import build_node
from tests.building.records import build_paired_record
from tests.building.scheduling import build_plan
from tests.building.specs import build_spec_data
from tests.building.stores import build_home, build_opening
from tests.building.trials import IDENTITY, build_full_trial
from tests.commands import python
from tests.orchestrator.storage.tracking.recording import writer
from workloads.own_code import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
Started: TypeAlias = list[tuple[SweepSpec, RunOptions]]
SPEC = build_spec_data(implementations=("tensorflow/portable",))
WORKLOAD = """
from rnnsweep import Context

def run(trial: Context) -> dict[str, float]:
    return {"loss": 1 / trial.settings["units"]}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two generations of a sweep of 32 to 43 units; in the second XLA is slower."""
    home = build_home(tmp_path_factory.mktemp("api"))
    for generation, xla_s in ((1, 10 / 1.5), (2, 10.0)):
        trials, identity = [], replace(IDENTITY, generation=generation)
        for block, (arm, whole_s) in product(range(12), ((PORTABLE, 20.0), (XLA, xla_s))):
            seconds = whole_s * (1 + block / 20) * (1 + 0.001 * (block % 3) * (2 - generation))
            metrics = {"step_ms": seconds / 4, "peak_rss_mib": 400, "val_accuracy": 0.9}
            trial = build_full_trial(
                block,
                arm,
                trainer_trials=0,
                metrics=metrics,
                started_s=1.7e9 + 60 * block,
                ended_s=1.7e9 + 60 * block + seconds,
            )
            own = make_trial(identity, Block(block, trial.config), arm, 0)
            trials.append(replace(trial, trial=own))
        with writer(home) as opened:
            opened.open(build_opening(identity, blocks=12))
            opened.record(trials)
            opened.close("complete", {})
    return home


@pytest.fixture
def home(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RNNSWEEP_HOME", str(recorded))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return recorded


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", sorted({*api.__all__} - {"run_sweep"}))
def test_the_documented_examples_run(name: str) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(api, name), name)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_documented_sweep_runs_in_a_script(tmp_path: Path) -> None:
    home = build_home(tmp_path)
    (tmp_path / "mine.py").write_text(WORKLOAD)
    for name in PACKAGES:  # that nobody imports from the current folder
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a user's package')")
    script = "import doctest; from orchestrator import api\n"
    script += "doctest.run_docstring_examples(api.run_sweep, {'run_sweep': api.run_sweep})\n"
    script += "import sys; assert 'mlflow' not in sys.modules"  # the recorder process has it
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    environ |= {"RNNSWEEP_HOME": str(home), "PYTHONPATH": str(ROOT)}
    assert python("-P", "-c", script, environ=environ, cwd=tmp_path).expect().out == ""
    assert (home / "sweeps" / "example" / "1" / "journal.jsonl").exists()


@pytest.mark.parametrize(
    ("package", "program", "code"),
    [
        pytest.param("orchestrator", "import rnnsweep", 1, id="orchestrator-api"),
        pytest.param("workloads", "import rnnsweep", 1, id="workloads-api"),
        pytest.param(
            "workloads",
            "import orchestrator.__main__ as command; command.main()",
            2,
            id="workloads-command",
        ),
        pytest.param(
            "orchestrator",
            "import sys; sys.argv[0] = 'bin/rnnsweep'; import rnnsweep.__main__",
            2,
            id="orchestrator-command",
        ),
    ],
)
def test_a_package_that_hides_one_of_ours_is_refused(
    tmp_path: Path, package: str, program: str, code: int
) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = python("-P", "-c", program, environ=environ)
    assert done.code == code and "rename it, or take its folder out of" in done.err


def test_the_package_has_the_interface() -> None:
    assert set(rnnsweep.__all__) == {*api.__all__, "Context", "__version__", "convert"}
    assert not hasattr(rnnsweep, "no_such_name")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    calls: Started = []

    def run(spec: SweepSpec, options: RunOptions, **_: Any) -> RunResult:
        calls.append((spec, options))
        return RunResult(build_paired_record(6), None)

    monkeypatch.setattr("orchestrator.scheduling.sweep.run_checked_sweep", run)
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path / "usual"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return calls


def test_a_spec_comes_as_a_file_a_mapping_or_checked(started: Started, tmp_path: Path) -> None:
    text, path = json.dumps(SPEC), tmp_path / "mine.yaml"
    path.write_text(text)
    for spec in (path, str(path), SPEC):
        api.run_sweep(spec, {"settings.epochs": 2, "search.configs": 2})
    checked = parse_spec(text, source="text", overrides=["settings.epochs=2", "search.configs=2"])
    assert api.run_sweep(checked).record == build_paired_record(6)
    assert [spec for spec, _ in started] == [checked] * 4
    with pytest.raises(TypeError, match="overrides"):
        api.run_sweep(checked, {"repeats": 2})


def test_a_wrong_spec_is_refused(started: Started) -> None:
    with pytest.raises(SpecError, match="wrkload"):
        api.run_sweep({**SPEC, "wrkload": "image_rows"})
    with pytest.raises(SpecError, match="a value of type object"):
        api.run_sweep({**SPEC, "settings": {"epochs": object()}})
    with pytest.raises(Refusal, match="no module 'no_such_module'"):
        api.run_sweep({**SPEC, "workload": "no_such_module:run"})
    assert not started


def test_places_are_those_of_the_commands_unless_given(started: Started, tmp_path: Path) -> None:
    api.run_sweep(SPEC)
    api.run_sweep(SPEC, home=tmp_path / "other", tracking_uri="http://store", address="auto")
    usual = tmp_path / "usual"
    assert [options for _, options in started] == [
        RunOptions(usual, f"sqlite:///{usual / 'mlflow.db'}"),
        RunOptions(tmp_path / "other", "http://store", "auto"),
    ]


def test_a_signal_before_the_first_trial_interrupts_the_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "orchestrator.scheduling.sweep.run_checked_sweep", Mock(side_effect=Stopped)
    )
    with pytest.raises(KeyboardInterrupt, match="before a trial was started"):
        api.run_sweep(SPEC, home=tmp_path)


def test_progress_goes_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    laid = build_plan(classify([build_node("a")]))
    with caplog.at_level("INFO", "rnnsweep"), Watcher(laid) as view:
        view.trial_finished(build_full_trial().trial, build_full_trial().outcome)
        view.warn("a GPU is lost")
    assert "block 0  tensorflow/portable" in caplog.messages[0]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
