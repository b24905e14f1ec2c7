"""Wrong command lines and specs: exit code 2, a message that names the place, nothing is run."""

import shlex
import socket
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.cli.options import set_words
from orchestrator.core.trial import Block, FinishedTrial, make_trial
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal
from orchestrator.storage.resume import Incomparable, identify, preview, take_over
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
        ("plan wrong.yaml", "wrong.yaml:8: search.space.units.low"),
        ("submit wrong.yaml --address http://127.0.0.1:9", "wrong.yaml:8: search.space.units.low"),
        ("submit mine.yaml --address http://a:b", "connecting to http://a:b"),
        ("demo --set settings.epoch=2", "--set settings.epoch"),
        ("run", "SPEC"),
        ("run .", "is a directory"),
        ("run none.yaml", "no such file"),
        ("run mine.yaml --set settings.epoch=2", "--set settings.epoch"),
        ("run own.yaml", "workload: own.module:run cannot be used: "),
        ("plan mine.yaml --set arms.hardware=[T4]", "no node is of this class; present: "),
        ("plan own.yaml", "workload: own.module:run cannot be used: "),
        (
            "plan mine.yaml --nodes '4 x NVIDIA T5'",
            "expected a class that is here or has trials in this sweep",
        ),
        (
            "submit mine.yaml --home here --address http://127.0.0.1:9",
            "--home: expected an absolute path",
        ),
        ("status none", "RNNSWEEP_HOME"),
        ("report none", "no sweep 'none'"),
        ("query none", "has no sweeps yet"),
        ("report none --format html5", "markdown"),
        (
            "report none -o r.pdf",
            "r.pdf: expected a name that ends in .txt, .md, .json, .csv, .html; ",
        ),
        (
            "report none --full -o r.json",
            "--full: expected --format text or markdown, received json",
        ),
        ("report none --target 97", "'--target': 97.0 is not in the range 0<x<=1"),
        ("report none --set settings.epochs=2", "rnnsweep run SPEC --set settings.epochs=2"),
        ("report none --set prices=3", "--set prices=3: prices: expected a list"),
        ("best none --min val_accuracy", "'--min': expected METRIC=NUMBER"),
        ("best none --min val_accuracy=high", "'--min': expected METRIC=NUMBER"),
        ("best none --min loss=1 --min loss=2", "expected one limit for loss"),
        ("report none --section speeed", "'speeed' is not one of 'fastest', 'speed',"),
        ("bench tensorflow/portable --export-json none/b.json", "no folder none"),
        ("bench tensorflow/portable --save-spec none/s.yaml", "no folder none"),
        ("bench tensorflow/portable --set unit=3", "  --set unit: expected a setting of char_rnn"),
        ("bench tensorflow/portabel", "  tensorflow/portabel: expected a kernel"),
        ("bench tensorflow/cudnn", "tensorflow/cudnn"),
        ("bench tensorflow/portable --hardware gpus", "  --hardware gpus: expected cpu, gpu"),
        ("bench tensorflow/portable --hardware 'NVIDIA Imaginary'", "Imaginary"),
        ("ui", "Run a sweep first"),
        ("ui --host ''", "such as 127.0.0.1, received an empty one"),
        ("init mine.yaml/new", "mine.yaml/new: expected a place that can be used"),
        ("doctor --for wrong.yaml", "wrong.yaml:8: search.space.units.low"),
        ("workloads --set cell=gru", "--set: expected a workload before it"),
        ("workloads image_row", "did you mean 'image_rows'?"),
        ("workloads own.module:run", "Expected a built-in one"),
        ("workloads image_rows --set cel=gru", "did you mean 'cell'?"),
        ("workloads image_rows --set units=0", "units: expected at least 1; received 0"),
        ("workloads image_rows --set cell", "KEY=VALUE, such as cell=gru"),
        ("parity torch/fuse --save a", "did you mean 'fused'?"),
        ("parity --set unit=3 --save a", "did you mean 'units'?"),
        ("parity --set cell=lsm --save a", "cell: expected 'lstm', 'gru'"),
        ("parity --set units --save a", "expected KEY=VALUE, such as cell=gru"),
        ("parity --save a --load b", "expected --save or --load; received both"),
        ("parity", "expected --save DIR"),
        ("parity --save a --tolerance 1", "--tolerance: expected together with --load"),
        ("status --address 10.0.0.5:6379", "http://10.0.0.5:8265), received '10.0.0.5:6379'"),
        ("status --address auto", "http://10.0.0.5:8265), received 'auto'"),
        ("status --address http://", "http://10.0.0.5:8265), received 'http://'"),
        ("status --address http://a:b", "http://10.0.0.5:8265), received 'http://a:b'"),
        ("status --address http://none.invalid:8265", "http://none.invalid:8265"),
        ("status --address ray://a:1", "http://10.0.0.5:8265), received 'ray://a:1'"),
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
    [("run mine.yaml", "mine.yaml"), ("run mine.yaml", "/proc/none"), ("status", "mine.yaml")],
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
    assert "RNNSWEEP_HOME" in run("status")[1]
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
    assert code == 2 and f"127.0.0.1:{port}: expected a free port" in err


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


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_start_that_does_not_extend_the_existing_trials_is_refused(
    run: Run, home: Path, form: str
) -> None:
    with Journal(SweepFolder(home, "mine").generation(1)) as journal:
        take_over(journal, None, identify(build_spec(), 1), build_spec())
        with pytest.raises(Incomparable, match="seed: 0 -> 4") as refused:
            other = build_spec(overrides=["seed=4"])
            take_over(journal, None, identify(other, 1), other)
        assert "sampler" not in str(refused.value), "only what differs is named"
    others = ["seed=4", "search.sampler=qmc", "settings.units=2", "search.space={layers: [1, 2]}"]
    overrides = set_words([*others, "search.configs=2"])
    code, out, err = run("plan", "mine.yaml", *overrides, "--format", form)
    assert (code, out) == (2, "")
    for difference in ("seed: 0 -> 4", "search.sampler: ", "settings.units: ", "it with --fresh"):
        assert difference in err
    assert run("plan", "mine.yaml", "--set", "repeats=2")[0] == 0


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
