"""Whoever can write to a store can write nonsense: it is skipped or refused by name."""

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.storage.tracking.mlflow.address import lies_below
from orchestrator.storage.tracking.mlflow.mlflow_names import mlflow_tag
from orchestrator.storage.tracking.stored_records import LEASE_TAG
from orchestrator.storage.tracking.tracking_errors import TrackingError
from tests.building.stores import build_opening
from tests.faults.conftest import Faults
from tests.faults.hostile_inputs import LEASES, READERS, TAGS
from tests.faults.test_hostile_commands import expect_clean
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.storage.tracking.mlflow.stored import trial_runs
from tests.orchestrator.storage.tracking.recording import new_writer

COMMANDS = [command.split() for command in READERS]


def test_tampered_tags_and_columns(run: Run, store: Path, faults: Faults) -> None:
    draw, number = faults(10, 12)
    whole = (store / "mlflow.db").read_bytes()
    for _ in range(number):
        (store / "mlflow.db").write_bytes(whole)
        with closing(sqlite3.connect(store / "mlflow.db")) as database, database:
            tags = database.execute("SELECT key, run_uuid FROM tags ORDER BY 1, 2").fetchall()
            key, run_id = draw.choice(tags)
            value = draw.choice(LEASES if key == mlflow_tag(LEASE_TAG) else TAGS)
            if draw.random() < 0.7:
                database.execute(
                    "UPDATE tags SET value = ? WHERE key = ? AND run_uuid = ?", (value, key, run_id)
                )
            else:
                key, time = draw.choice(("start_time", "end_time")), draw.choice((-1, 2**62))
                value = str(time)
                database.execute(f"UPDATE runs SET {key} = ? WHERE run_uuid = ?", (time, run_id))
        for command in COMMANDS:
            expect_clean(run, command, f"{key} = {value!r:.80}")


def test_damaged_artifacts(run: Run, store: Path, faults: Faults) -> None:
    draw, number = faults(1, 1)
    files = [path for path in (store / "mlartifacts").rglob("*") if path.is_file()]
    assert {"sweep.json", "trials.parquet"} <= {path.name for path in files}
    for path in files:
        whole = path.read_bytes()
        for content in draw.sample([b"", b"\0" * 100, b"{", b"\xff\xfe"], min(number, 4)):
            path.write_bytes(content)
            for command in COMMANDS[:3]:
                expect_clean(run, command, f"{path.name} = {content!r}")
        path.write_bytes(whole)


@pytest.mark.parametrize("table", ["runs", "logged_models"])
def test_a_forged_address_of_artifacts_chooses_no_folder(
    run: Run, store: Path, tmp_path: Path, table: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    packed = tmp_path / "model.tar"
    (tmp_path / "best.keras").write_text("weights")
    with tarfile.open(packed, "w") as tar:
        tar.add(tmp_path / "best.keras", arcname="./best.keras")
    (trial,) = trial_runs(store)[:1]
    opened = new_writer(store)
    opened.open(build_opening())
    opened.log_model(trial.info.run_id, packed)
    with closing(sqlite3.connect(store / "mlflow.db")) as database, database:
        column = "artifact_uri" if table == "runs" else "artifact_location"
        database.execute(f"UPDATE {table} SET {column} = ?", (victim.as_uri(),))
    with pytest.raises(TrackingError, match="outside of its experiment"):
        if table == "runs":
            opened.close("complete", {"report.md": "report"})
        else:
            opened.log_model(trial.info.run_id, packed)
    assert not list(victim.iterdir())
    if table == "runs":
        expect_clean(run, COMMANDS[0], "a forged address")


@pytest.mark.parametrize(
    ("uri", "location", "expected"),
    [
        ("file:///home/a/1/run/artifacts", "file:///home/a/1", True),
        ("file:///home/a/1/run", "/home/a/1", True),
        ("s3://bucket/1/run", "s3://bucket/1", True),
        ("file:///home/a/1", "file:///home/a/1", False),
        ("file:///home/a/10/run", "file:///home/a/1", False),
        ("file:///home/a/1/%2e%2e/2", "file:///home/a/1", False),
        ("file:///etc", "s3://bucket/1", False),
    ],
)
def test_an_address_of_artifacts_lies_below_another_one(
    uri: str, location: str, expected: bool
) -> None:
    assert lies_below(uri, location) is expected
