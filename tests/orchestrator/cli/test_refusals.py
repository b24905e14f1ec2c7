"""Wrong command lines and specs: exit code 2, a message that names the place, nothing is run."""

import shlex
import socket
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.core.trial import Block, FinishedTrial, make_trial
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.resume import Incomparable, identify, preview
from orchestrator.storage.tracking.tracker import StoredRun
from tests.building.arms import PORTABLE
from tests.building.specs import build_spec, build_spec_text
from tests.building.stores import build_home, build_opening, mlflow_address
from tests.building.trials import build_full_trial
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.storage.tracking.recording import writer


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run wrong.yaml", "wrong.yaml:8: search.space.units.low"),
        ("run quikstart", "did you mean quickstart?"),
        ("run own.yaml", "workload: own.module:run cannot be used: "),
        ("plan mine.yaml --set arms.hardware=[T4]", "no node is of this class"),
        (
            "plan mine.yaml --nodes '4 x NVIDIA T5'",
            "no class of this machine or this sweep",
        ),
        (
            "submit mine.yaml --home here --address http://127.0.0.1:9",
            "--home: expected an absolute path",
        ),
        ("status none", "RNNSWEEP_HOME"),
        ("list", "Instead: rnnsweep status"),
        ("plan none", "rnnsweep run --help"),
        ("query none", "no sweep 'none'"),
        (
            "report none -o r.pdf",
            "r.pdf: expected a name that ends in .txt, .md, .json, .html; ",
        ),
        (
            "report none --full -o r.json",
            "--full is for --format text or markdown",
        ),
        ("best none --min val_accuracy", "'--min': expected METRIC=NUMBER"),
        ("best none --min loss=1 --min loss=2", "expected one limit for loss"),
        ("bench tensorflow/portable --export-json none/b.json", "no folder none"),
        ("bench tensorflow/portable --set settings.unit=3", "did you mean 'units'?"),
        ("bench tensorflow/portable --set cell=gru", "did you mean settings.cell=…?"),
        ("bench tensorflow/portabel", "  tensorflow/portabel: expected one of the kernels"),
        ("bench tensorflow/cudnn", "tensorflow/cudnn"),
        ("bench tensorflow/portable --hardware 'NVIDIA Imaginary'", "Imaginary"),
        ("ui", "Run a sweep first"),
        ("ui --host ''", "such as 127.0.0.1"),
        ("init mine.yaml/new", "mine.yaml/new: "),
        ("status --address 10.0.0.5:6379", "http://10.0.0.5:8265; received '10.0.0.5:6379'"),
        ("status --address http://none.invalid:8265", "http://none.invalid:8265"),
    ],
)
def test_what_is_wrong_is_refused(run: Run, home: Path, command: str, words: str) -> None:
    Path("wrong.yaml").write_text(build_spec_text(space={"units": {"low": 8, "high": 4}}))
    Path("own.yaml").write_text(build_spec_text(workload="own.module:run"))
    code, out, err = run(*shlex.split(command))
    assert (code, out) == (2, "")
    assert words in err and "Traceback" not in err
    assert not home.exists()


@pytest.mark.parametrize(
    ("command", "path"),
    [("run mine.yaml", "mine.yaml"), ("run mine.yaml", "/proc/none")],
)
def test_what_cannot_be_a_home_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, path: str
) -> None:
    monkeypatch.setenv("RNNSWEEP_HOME", path)
    code, _, err = run(*command.split())
    assert code == 2 and path in err and "RNNSWEEP_HOME" in err


def test_a_sweep_that_the_store_does_not_have_is_refused(run: Run, tmp_path: Path) -> None:
    database = build_home(tmp_path) / "mlflow.db"
    code, _, err = run("report", "none")
    assert code == 2 and "no sweep 'none'" in err
    database.write_text("this is no database\n" * 100)
    code, _, err = run("report", "none")
    assert code == 2 and "not a database" in err
    assert database.read_text().startswith("this is no database"), "it is not replaced"


def test_a_port_that_is_taken_is_refused(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("ui", "--port", str(port))
    assert code == 2 and f"cannot listen on 127.0.0.1:{port}" in err


def test_the_server_of_ui_gets_a_password_in_its_environment_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = "postgresql://me:secret@db.example/x"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr("orchestrator.cli.ui._expect_free", lambda *_: None)
    with mock.patch("subprocess.Popen", side_effect=OSError) as started:
        run("ui")
    (command,), options = started.call_args
    assert "secret" not in " ".join(command)
    assert options["env"]["MLFLOW_BACKEND_STORE_URI"] == uri


def test_a_tracking_server_has_its_own_ui(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example/")
    runs = [StoredRun("", name[1], name, "finished", 0, {}) for name in ("s1#2", "s2", "s1")]
    monkeypatch.setattr("orchestrator.storage.tracking.reader.list_sweeps", lambda uri: runs)
    code, out, _ = run("ui")
    lines = out.splitlines()
    assert code == 0 and "secret" not in out and lines[0] == "MLflow: https://mlflow.example"
    links = [line for line in lines[1:] if "https://mlflow.example/#/" in line]
    assert [line.split()[0] for line in links] == ["s1#2", "s2", "all"]


def test_a_plan_resumes_or_refuses_what_only_the_store_has(tmp_path: Path) -> None:
    made, before = build_home(tmp_path), identify(build_spec(), 1)
    trial = make_trial(before, Block(0, build_full_trial().config), PORTABLE, 0)
    with writer(made) as opened:
        opened.open(build_opening(before))
        opened.record([FinishedTrial(trial, build_full_trial().outcome)])
    other_home = SweepFolder(tmp_path / "other", "mine")
    for folder in (other_home, SweepFolder(made, "mine")):  # in its own home, the journal is lost
        assert list(preview(folder, build_spec(), mlflow_address(made)).finished) == [trial.key]
        other = build_spec(overrides=["seed=4"])
        with pytest.raises(Incomparable, match="seed: 0 -> 4"):
            preview(folder, other, mlflow_address(made))
        assert not folder.path.exists()
