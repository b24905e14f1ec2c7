"""Wrong command lines and specs: exit code 2, a message that names the place, nothing is run."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal
from orchestrator.storage.resume import identify, take_over
from tests.orchestrator.cli.typed_commands import typed
from tests.orchestrator.sample_specs import spec, spec_text
from tests.orchestrator.sample_sweeps import fresh_home

NOBODY = "--address http://127.0.0.1:9"
REFUSED = [
    *((f"{run} wrong.yaml", "wrong.yaml:8: search.space.units.low") for run in ("run", "plan")),
    (f"submit wrong.yaml {NOBODY}", "wrong.yaml:8: search.space.units.low"),
    ("run", "SPEC"),
    ("run .", "is a directory"),
    ("run none.yaml", "no such file"),
    ("run good.yaml --set settings.epoch=2", "--set settings.epoch"),
    ("run own.yaml", "workload: own.module:run cannot be used: "),
    ("plan own.yaml", "workload: own.module:run cannot be used: "),
    (f"submit good.yaml --home here {NOBODY}", "--home: expected an absolute path"),
    ("status none", "RNNSWEEP_HOME"),
    ("report none", "Run a sweep first"),
    ("report none --format html5", "markdown"),
    ("ui", "Run a sweep first"),
    ("hardware --fresh", "--fresh: expected together with --measure"),
    ("workloads --set cell=gru", "--set: expected a workload before it"),
    ("workloads image_row", "did you mean 'image_rows'?"),
    ("parity --save a --load b", "expected --save or --load; received both"),
    *(
        (f"status --address {address}", f"http://10.0.0.5:8265), received {address!r}")
        for address in ("10.0.0.5:6379", "auto", "http://", "http://a:b", "ray://a:1")
    ),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that does not exist; in the working directory are a good spec and wrong ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    Path("good.yaml").write_text(spec_text())
    Path("wrong.yaml").write_text(spec_text(space={"units": {"low": 8, "high": 4}}))
    Path("own.yaml").write_text(spec_text(workload="own.module:run"))
    return tmp_path / "home"


@pytest.mark.parametrize(("command", "words"), REFUSED, ids=[command for command, _ in REFUSED])
def test_what_is_wrong_is_refused(
    home: Path, capfd: pytest.CaptureFixture[str], command: str, words: str
) -> None:
    code, out, err = typed(capfd, *command.split())
    assert (code, out) == (2, "")
    assert words in err and "Traceback" not in err
    assert not home.exists()


@pytest.mark.parametrize(
    ("command", "path"),
    [("run good.yaml", "good.yaml"), ("run good.yaml", "/proc/none"), ("status", "good.yaml")],
)
def test_what_cannot_be_a_home_is_refused(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
    path: str,
) -> None:
    monkeypatch.setenv("RNNSWEEP_HOME", path)
    code, _, err = typed(capfd, *command.split())
    assert code == 2 and path in err and "RNNSWEEP_HOME" in err


def test_a_sweep_that_the_store_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RNNSWEEP_HOME", str(fresh_home(tmp_path)))
    code, _, err = typed(capfd, "report", "none")
    assert code == 2 and "no sweep 'none'" in err
    assert "no sweeps" in typed(capfd, "status")[1]


def test_a_port_that_is_taken_is_refused(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    (home / "mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = typed(capfd, "ui", "--port", str(port))
    assert code == 2 and f"127.0.0.1:{port}: expected a free port" in err


def test_a_tracking_server_has_its_own_ui(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example")
    code, out, _ = typed(capfd, "ui")
    assert code == 0 and "https://me:***@mlflow.example" in out


def test_a_plan_that_does_not_extend_the_existing_trials_is_refused(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Journal(SweepFolder(home, "mine").generation(1)) as journal:
        take_over(journal, None, identify(spec(), 1), spec())
    for form in ("text", "json"):
        others = ("--set", "seed=4", "--set", "search.sampler=qmc", "--set", "settings.units=2")
        others = (*others, "--set", "search.space={layers: [1, 2, 3]}")
        code, out, err = typed(capfd, "plan", "good.yaml", *others, "--format", form)
        assert code == 2
        assert "tensorflow/portable" in out
        for difference in ("seed: 0 -> 4", "search.sampler: ", "settings.units: ", "--fresh"):
            assert difference in err
    assert typed(capfd, "plan", "good.yaml", "--set", "repeats=2")[0] == 0
