"""A home that was moved or copied: its artifacts are found, and written, where it is now."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from mlflow.tracking._tracking_service import utils

from orchestrator.storage.tracking.mlflow.moved_homes import correct_addresses
from orchestrator.storage.tracking.reader import read_stored_sweep
from tests.building.stores import build_home, mlflow_address
from tests.building.trials import build_full_trial
from tests.orchestrator.storage.tracking.recording import children, record, table


def addresses(home: Path) -> set[str]:
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        rows = database.execute(
            "SELECT artifact_location FROM experiments UNION SELECT artifact_uri FROM runs"
        ).fetchall()
    return {text for (text,) in rows if "mlruns" not in text}


def test_a_copied_home_is_read_and_continued_without_touching_the_first(tmp_path: Path) -> None:
    home = build_home(tmp_path)
    record(home, build_full_trial(0))
    copy = tmp_path / "a copy"
    shutil.copytree(home, copy)
    before, first = addresses(home), table(home).read_bytes()
    utils._artifact_repos_cache.clear()  # of a process that wrote to the first home
    assert len(read_stored_sweep(mlflow_address(copy), "quickstart").trials) == 1
    assert addresses(copy) == before  # reading changes nothing
    record(copy, build_full_trial(1))
    assert addresses(copy) == {text.replace(home.as_uri(), copy.as_uri()) for text in before} | {
        f"{(copy / 'mlartifacts').as_uri()}/{run.run_id}/artifacts" for run in children(copy)
    }
    assert table(home).read_bytes() == first
    assert table(copy).read_bytes() != first
    shutil.rmtree(home)
    trials = read_stored_sweep(mlflow_address(copy), "quickstart").trials
    assert [trial.block for trial in trials] == [0, 1]


def test_a_database_that_homes_share_keeps_the_addresses_of_each(tmp_path: Path) -> None:
    home = build_home(tmp_path)
    record(home, build_full_trial(0))
    other = tmp_path / "other"
    (other / "mlartifacts").mkdir(parents=True)
    before = addresses(home)
    assert correct_addresses(home / "mlflow.db", other) == []
    assert correct_addresses(home / "mlflow.db", home) == []
    assert addresses(home) == before
