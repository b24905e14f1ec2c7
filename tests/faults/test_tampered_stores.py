"""Whoever can write to a store can write nonsense: it is skipped or refused by name."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.conftest import Faults
from tests.faults.test_hostile_commands import expect_clean
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.sample_sweeps import finished, fresh_home
from tests.orchestrator.storage.tracking.recording import record

VALUES = (
    "",
    "²",
    "nan",
    "-1",
    "1e999",
    "9" * 30,
    "{}",
    "[]",
    "null",
    "\x1b[31m",
    "\ud7ff" * 9,
    "x" * 7_000,
)
LEASES = (
    '{"version":2,"content":{"owner":null,"until_s":NaN}}',
    '{"version":2,"content":{"owner":{"host":"h","pid":1,"started_s":1.0,"machine":"m"},"until_s":Infinity}}',
    '{"version":2,"content":{"owner":{"host":"h","pid":1,"started_s":1.0,"machine":"m"},"until_s":1e18}}',
)
COMMANDS = (
    "report",
    "report quickstart --format json",
    "query quickstart",
    "list",
    "best quickstart",
)
COLUMNS = ("start_time", "end_time", "status", "name", "lifecycle_stage")


@pytest.fixture
def store(home: Path) -> Path:
    record(fresh_home(home.parent), finished(0), finished(1))
    return home


def test_tampered_tags_and_columns(run: Run, store: Path, faults: Faults) -> None:
    draw, number = faults(10)
    whole = (store / "mlflow.db").read_bytes()
    for _ in range(number):
        (store / "mlflow.db").write_bytes(whole)
        with closing(sqlite3.connect(store / "mlflow.db")) as database, database:
            tags = database.execute(
                "SELECT key, run_uuid FROM tags ORDER BY key, run_uuid"
            ).fetchall()
            key, run_id = draw.choice(tags)
            value = draw.choice(LEASES if key == "lease" else VALUES)
            if draw.random() < 0.7:
                database.execute(
                    "UPDATE tags SET value = ? WHERE key = ? AND run_uuid = ?", (value, key, run_id)
                )
                what = f"tag {key} = {value[:80]!r}"
            else:
                column, number_ = draw.choice(COLUMNS[:2]), draw.choice((-1, 10**18, 2**62))
                database.execute(
                    f"UPDATE runs SET {column} = ? WHERE run_uuid = ?", (number_, run_id)
                )
                what = f"{column} = {number_}"
        print(what)
        for command in COMMANDS:
            expect_clean(run, command.split())


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"{", b"\xff\xfe"])
def test_damaged_artifacts(run: Run, store: Path, content: bytes) -> None:
    files = [path for path in (store / "mlartifacts").rglob("*") if path.is_file()]
    assert {"sweep.json", "trials.parquet"} <= {path.name for path in files}
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(content)
        for command in COMMANDS[:3]:
            expect_clean(run, command.split())
        path.write_bytes(whole)
