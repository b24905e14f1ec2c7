"""What released versions wrote is read and continued by every later version."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.hardware.files import read_nodes
from orchestrator.report.compare.sides import read_report
from orchestrator.storage import journal
from orchestrator.storage.tracking.reader import read_stored_sweep
from tests.building.stores import mlflow_address
from tests.commands import python
from tests.frozen import formats_of, frozen_stores, is_release, unpack_home
from tests.frozen.__main__ import SWEEPS
from tests.frozen.shapes import formats_now
from tests.orchestrator.cli.typed_commands import Run, type_command

STORES = frozen_stores()


@pytest.fixture(params=STORES, ids=lambda store: store.name)
def store(request: pytest.FixtureRequest) -> Path:
    """Return the folder of a version; one of a development version only while it is current."""
    folder: Path = request.param
    if not is_release(folder) and formats_of(folder)["formats"] != formats_now():
        pytest.skip("formats have changed since: `make frozen-store` makes this store again")
    return folder


@pytest.fixture
def home(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of that version, which is at another place now, with other users."""
    home = unpack_home(store, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNSWEEP_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return home


@pytest.fixture
def run(home: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return partial(type_command, capfd)


@pytest.mark.parametrize("store", [s for s in STORES if is_release(s)], ids=lambda s: s.name)
def test_a_format_that_changed_since_a_release_has_a_raised_number(store: Path) -> None:
    now = formats_now()
    for name, before in formats_of(store)["formats"].items():
        if name not in now:  # a format that is written no more
            continue
        assert now[name]["number"] > before["number"] or now[name] == before, name


def test_there_is_a_store_of_the_first_release() -> None:
    assert "0.1.0" in [store.name for store in STORES if is_release(store)]


def content_of(home: Path) -> dict[str, str]:
    """Return a digest of each file of a home; SQLite's shared memory is none."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


@pytest.fixture
def unchanged(home: Path) -> Iterator[None]:
    """Check that a test changes no file of the home."""
    before = content_of(home)
    yield
    assert content_of(home) == before


@pytest.mark.usefixtures("unchanged")
def test_a_former_store_and_journal_have_the_trials_of_their_reports(
    store: Path, home: Path
) -> None:
    for sweep in SWEEPS:
        kept = read_report(store / f"report-{sweep.replace('#', '-')}.json").record
        now = read_stored_sweep(mlflow_address(home), sweep)
        assert {t.key: (t.status, t.metrics) for t in now.trials} == {
            t.key: (t.status, t.metrics) for t in kept.trials
        }
        state = journal.read(home / "sweeps" / now.name / str(now.generation))
        assert state is not None
        assert state.finished.keys() == {trial.key for trial in now.trials}


@pytest.mark.usefixtures("unchanged")
def test_commands_report_the_sweeps_of_a_former_store(run: Run) -> None:
    for sweep in SWEEPS:
        assert run("report", sweep)[0] == 0


@pytest.mark.usefixtures("unchanged")
def test_commands_compare_query_and_list_a_former_store(store: Path, run: Run) -> None:
    def answer(*words: str) -> Any:
        code, out, err = run(*words, "--format", "json")
        assert code == 0, err
        return json.loads(out)

    assert run("compare", str(store / "report-failing-1.json"), "failing")[0] == 0
    rows = json.loads((store / "query.json").read_text())["rows"]
    assert len(answer("query", "trained", "--columns", "all")["rows"]) == len(rows)
    assert answer("best", "trained")["metric"] == "val_accuracy"
    rows = answer("status")["sweeps"]
    assert {row["sweep"] for row in rows} >= {"trained", "failing#2"}
    assert {row["state"] for row in rows} == {"complete"}


@pytest.mark.usefixtures("unchanged")
def test_a_generation_has_the_name_that_the_list_shows(run: Run) -> None:
    _, listed, _ = run("status")
    assert {"failing#1", "failing#2", "trained"} <= {*listed.split()}
    assert run("status", "failing#2")[0] == 0
    code, _, err = run("status", "failing#1")
    assert code == 2 and "failing#2" in err


def test_files_that_a_former_version_wrote_are_read(store: Path) -> None:
    assert [node.profile.cpus for node in read_nodes(store / "hardware.json")]


@pytest.mark.full
def test_run_continues_a_former_sweep(home: Path, tmp_path: Path) -> None:
    before = journal.read(home / "sweeps" / "failing" / "2")
    assert before is not None
    for file in ("failing.yaml", "failing_workload.py"):
        shutil.copy(home / "specs" / file, tmp_path)

    def rnnsweep(*words: str, code: int) -> str:
        return python("-m", "orchestrator", *words, cwd=tmp_path).expect(code).out

    rnnsweep("run", "failing.yaml", "--set", "search.configs=4", code=1)
    report = json.loads(rnnsweep("report", "failing", "--format", "json", code=0))
    # On a machine of another class than the store's the arms of this machine begin anew.
    good = {
        (entry["block"], entry["repeat"])
        for entry in report["trials"]
        if entry["status"] == "complete"
    }
    assert len(good) == 8  # the other arm was stopped after its third failure, and stays so
    assert {entry["trial_key"] for entry in report["trials"]} > before.finished.keys()
