"""The Python interface: its documented examples, its arguments, and how light it is to import."""

import ast
import doctest
import inspect
import json
import logging
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, cast
from unittest.mock import Mock

import pytest

import rnnsweep
from orchestrator import api
from orchestrator.cli.main import main
from orchestrator.core.caller import called_by_command
from orchestrator.core.errors import Refusal
from orchestrator.core.start_command import StartCommand
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import Block, make_trial
from orchestrator.hardware import classify
from orchestrator.report.render import render
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
from workloads.own_code import PACKAGES, CodeFiles, read_code

ROOT = Path(__file__).resolve().parents[2]
Started: TypeAlias = list[tuple[SweepSpec, RunOptions]]
SPEC = build_spec_data(implementations=("tensorflow/portable",))
SCRIPT = """
import doctest
import sys

from orchestrator import api
from scale import inverse

FACTOR = 1.0

def scaled(number):
    return FACTOR * inverse(number)

def train(trial):
    return {"loss": scaled(trial.settings["units"])}

doctest.run_docstring_examples(api.run_sweep, {"run_sweep": api.run_sweep, "train": train})
assert "mlflow" not in sys.modules  # the recorder process has it
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
def test_the_documented_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(api, name), name)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_documented_sweep_runs_in_a_script(tmp_path: Path) -> None:
    home = build_home(tmp_path)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "scale.py").write_text("def inverse(number):\n    return 1 / number\n")
    (scripts / "example.py").write_text(SCRIPT)
    for name in PACKAGES:  # that nobody imports from the current folder
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a user's package')")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    environ |= {"RNNSWEEP_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = python("scripts/example.py", environ=environ, cwd=tmp_path).expect()
    assert done.out == ""
    shown = done.err.splitlines()
    assert [line[:12] for line in shown if "block" in line] == ["1/2  block 0", "2/2  block 1"]
    assert (home / "sweeps" / "example" / "1" / "journal.jsonl").exists()


@pytest.mark.parametrize(
    ("package", "program", "code"),
    [
        pytest.param("workloads", "import rnnsweep", 1, id="workloads-api"),
        pytest.param(
            "workloads",
            "import orchestrator.__main__ as command; command.main()",
            2,
            id="workloads-command",
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
    assert done.code == code and "remove its folder from PYTHONPATH" in done.err


@pytest.mark.parametrize(
    ("module", "program"),
    [
        ("pydantic", "import orchestrator.__main__ as command; command.main()"),
        ("workloads", "import sys; sys.argv[0] = 'bin/rnnsweep'; import rnnsweep.__main__"),
    ],
    ids=["by-command", "by-package"],
)
def test_an_interrupt_while_a_command_is_imported_stops_it(
    tmp_path: Path, module: str, program: str
) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = python("-P", "-c", program, environ=environ).expect(3)
    assert done.err == "Stopped.\n"


def test_the_package_has_the_interface() -> None:
    errors = {name for name in dir(rnnsweep) if issubclass_of_refusal(getattr(rnnsweep, name))}
    assert errors >= {"SpecError", "ClusterError", "SweepNotFound", "TrackingError", "Refusal"}
    assert errors >= {"Incomparable", "FunctionUnusable"}
    assert {*dir(rnnsweep)} == {*api.__all__, *errors, "Context", "__version__", "convert"}
    assert not hasattr(rnnsweep, "no_such_name")


def test_errors_are_named_as_users_import_them() -> None:
    for name in dir(rnnsweep):
        value = getattr(rnnsweep, name)
        if issubclass_of_refusal(value):
            assert f"{value.__module__}.{value.__qualname__}" == f"rnnsweep.{name}"
            assert pickle.loads(pickle.dumps(value)) is value, "they cross processes"


def issubclass_of_refusal(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Refusal)


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


def test_a_spec_comes_as_a_file_or_a_mapping(started: Started, tmp_path: Path) -> None:
    text, path = json.dumps(SPEC), tmp_path / "mine.yaml"
    path.write_text(text)
    for spec in (path, str(path), SPEC):
        api.run_sweep(spec, {"settings.epochs": 2, "search.configs": 2})
    checked = parse_spec(text, source="text", overrides=["settings.epochs=2", "search.configs=2"])
    assert [spec for spec, _ in started] == [checked] * 3
    assert api.run_sweep("own-model").stopped is None  # a shipped sweep, with its code
    assert started[-1][0].name == "own-model"


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: api.run_sweep(cast("Any", 5)), "spec: "),
        (lambda: api.best(build_paired_record(6), at_most=cast("Any", {"f1": "x"})), ".* f1: "),
    ],
)
def test_an_argument_of_another_type_is_named(
    started: Started, call: Callable[[], object], argument: str
) -> None:
    with pytest.raises(TypeError, match=f"^{argument}expected "):
        call()


def test_a_wrong_spec_is_refused(started: Started) -> None:
    with pytest.raises(SpecError, match="the spec: wrkload"):  # which has no lines
        api.run_sweep({**SPEC, "wrkload": "image_rows"})
    with pytest.raises(SpecError, match="a value of type object"):
        api.run_sweep({**SPEC, "settings": {"epochs": object()}})
    with pytest.raises(SpecError, match="give run_sweep the function itself"):
        api.run_sweep({**SPEC, "workload": "__main__:run", "settings": {}})
    with pytest.raises(Refusal, match="no module 'no_such_module'"):
        api.run_sweep({**SPEC, "workload": "no_such_module:run"})
    assert not started


def test_a_start_is_kept_as_it_was_typed_but_for_passwords(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(json.dumps(SPEC))
    overrides = {"repeats": 2, "settings.cell": "gru"}
    api.run_sweep("mine.yaml", overrides, tracking_uri="http://me:hush@store", fresh=True)
    (_, options) = started[0]
    typed = ("'mine.yaml'", "tracking_uri=...")
    texts = ("repeats=2", "settings.cell='gru'")
    assert options.start == StartCommand(typed, texts, in_python=True)


@pytest.mark.usefixtures("home")
def test_a_choice_shows_itself() -> None:
    choice = rnnsweep.best("quickstart", "val_accuracy", at_most={"step_ms": 2.55})
    assert (choice.arm, choice.block, choice.within, choice.label) == (XLA, 0, 1, "quickstart#2")
    assert "jit_compile=True" in choice.code()
    assert "<table>" in choice._repr_html_()
    assert str(choice.arm) in str(choice)
    assert len(repr(choice)) < 200


@pytest.mark.usefixtures("home")
def test_errors_name_arguments_in_python_and_options_in_commands() -> None:
    with pytest.raises(rnnsweep.InvalidSide, match="fresh=True"):
        rnnsweep.compare("quickstart#1", "quickstart#1")
    with called_by_command(), pytest.raises(rnnsweep.InvalidSide, match="--fresh"):
        rnnsweep.compare("quickstart#1", "quickstart#1")
    with pytest.raises(SpecError, match="overrides: repeats=0"):
        rnnsweep.run_sweep(SPEC, {"repeats": 0})


def test_a_former_argument_is_refused_with_what_replaces_it() -> None:
    with pytest.raises(TypeError, match="busy_counts=True"):
        rnnsweep.compare("old", "new", accept_provisional=True)  # type: ignore[call-arg]


def test_what_errors_name_in_python_are_arguments_of_the_interface() -> None:
    """Each `as_typed(option, argument)` in the code names an option and an argument that exist."""
    functions = [getattr(api, name) for name in api.__all__]
    arguments = {name for f in functions for name in inspect.signature(f).parameters}
    options = {o for c in main.commands.values() for p in c.params for o in p.opts}
    named = 0
    for file in (ROOT / "orchestrator").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "as_typed"):
                continue
            texts = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
            if len(texts) == 2:
                assert {word for word in texts[0].split() if word.startswith("-")} <= options
                assert set(re.findall(r"\b([a-z_]+)(?==|$)", texts[1])) <= arguments
                named += 1
    assert named > 10


def test_functions_are_found_under_the_names_that_the_spec_gets(started: Started) -> None:
    def build(settings: Any) -> None: ...

    found = list[CodeFiles | None]()

    def check(spec: SweepSpec, **_: Any) -> SweepSpec:
        found.append(read_code(spec.workload_name))
        return spec

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.execution.workload_check.check_user_code", check)
        model = {key: value for key, value in SPEC.items() if key not in ("workload", "settings")}
        model["search"] = {**model["search"], "objectives": {"step_ms": "minimize"}}
        api.run_sweep({**model, "model": build, "data": issubclass_of_refusal})
        api.run_sweep(SPEC, {"workload": issubclass_of_refusal, "settings": {}})
    (own_model, _), (named, _) = started
    assert own_model.model == "python_session:build"
    assert own_model.data == "python_session:issubclass_of_refusal"
    assert named.workload == f"{__name__}:issubclass_of_refusal"
    assert [code is not None for code in found] == [True, True]
    assert read_code("python_session:build") is None  # when the sweep has ended


def test_results_show_themselves_in_short_and_as_html(started: Started) -> None:
    result = api.run_sweep(SPEC)
    for shown in (result, result.record, result.report):
        assert len(repr(shown)) < 200
    page = result._repr_html_()
    assert page == result.report._repr_html_()
    rows = page.partition("<tbody>")[2].partition("</tbody>")[0].count("<tr>")
    assert rows == len(result.record.arms)
    assert str(result.report) in render(result.report.summary, "text")


def test_progress_is_printed_where_no_logging_is_set_up(
    started: Started, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(spec: SweepSpec, options: RunOptions, **_: Any) -> RunResult:
        options.phase("a phase")
        logging.getLogger("rnnsweep").warning("a warning")
        logging.getLogger("rnnsweep.output").info("an output")
        return RunResult(build_paired_record(6), None)

    monkeypatch.setattr("orchestrator.scheduling.sweep.run_checked_sweep", run)
    logger = logging.getLogger("rnnsweep")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's
    logger.setLevel(logging.NOTSET)
    api.run_sweep(SPEC)
    assert capsys.readouterr().err.splitlines() == ["a phase", "a warning"]
    assert (logger.handlers, logger.level, logger.propagate) == ([], logging.NOTSET, True)
    api.run_sweep(SPEC, progress=False)
    assert "a phase" not in capsys.readouterr().err


def test_a_signal_before_the_first_trial_interrupts_the_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "orchestrator.scheduling.sweep.run_checked_sweep", Mock(side_effect=Stopped)
    )
    with pytest.raises(KeyboardInterrupt, match="before the first trial"):
        api.run_sweep(SPEC, home=tmp_path)


def test_progress_goes_to_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    laid = build_plan(classify([build_node("a")]))
    with caplog.at_level("INFO", "rnnsweep"), Watcher(laid) as view:
        view.round_finished([build_full_trial()])
        view.warn("a GPU is lost")
    assert "block 0  tensorflow/portable" in caplog.messages[0]
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
