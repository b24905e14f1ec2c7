"""Whoever can write to a store can write nonsense: it is skipped or refused by name."""

import sqlite3
from contextlib import closing
from pathlib import Path

from orchestrator.storage.tracking.mlflow.names import mlflow_tag
from orchestrator.storage.tracking.records import LEASE_TAG
from tests.faults.conftest import Faults
from tests.faults.hostile_inputs import LEASES, READERS, TAGS
from tests.faults.test_hostile_commands import expect_clean
from tests.orchestrator.cli.typed_commands import Run

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
