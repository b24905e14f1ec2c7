"""The addresses of stores, and the errors of stores that cannot be used."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.storage.tracking import StoreMissing, TrackingError, artifact_root, tracking_uri
from orchestrator.storage.tracking.address import shown
from orchestrator.storage.tracking.mlflow_store import MlflowStore
from orchestrator.storage.tracking.reader import find_sweep, read_sweep
from orchestrator.storage.tracking.writer import Writer
from tests.orchestrator.sample_sweeps import address, failed, finished, fresh_home, opening
from tests.orchestrator.storage.tracking.recording import record, writer


def test_the_default_store_is_in_the_home(tmp_path: Path) -> None:
    assert tracking_uri(tmp_path, {}) == f"sqlite:///{tmp_path}/mlflow.db"
    assert artifact_root(tmp_path, tracking_uri(tmp_path, {})) == tmp_path / "mlartifacts"
    given = "http://server:5000"
    assert tracking_uri(tmp_path, {"MLFLOW_TRACKING_URI": given}) == given
    assert artifact_root(tmp_path, given) is None


def test_a_home_with_a_hostile_name(tmp_path: Path) -> None:
    home = fresh_home(tmp_path / "50%20 a#b?c&d ü")
    record(home, failed())
    assert record(home) == [failed()]
    assert {path.name for path in home.iterdir()} >= {"mlflow.db", "mlartifacts"}


def test_reading_makes_no_store(tmp_path: Path) -> None:
    for read in (read_sweep, find_sweep):
        reading: Callable[[str, str], object] = read
        if read is find_sweep:
            assert reading(address(tmp_path), "quickstart") is None
        else:
            with pytest.raises(StoreMissing, match=r"mlflow.db: expected a SQLite file, .*Run a"):
                reading(address(tmp_path), "quickstart")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("sqlite:////proc/nowhere/mlflow.db", "nowhere"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("postgresql://me:secret@127.0.0.1:9/db", "postgresql"),
        ("gopher://x", "gopher"),
        ("file:///tmp/mlruns", "use sqlite:///PATH or a server's address"),
    ],
)
def test_a_store_that_cannot_be_used_is_reported_soon(
    uri: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    started_s = time.monotonic()
    with pytest.raises(TrackingError, match="expected a working store, received") as caught:
        Writer(uri, None).open_sweep(opening(Path("home")))
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert time.monotonic() - started_s < 10


def test_a_file_that_is_no_database_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("this is not a database, " * 100)
    with pytest.raises(TrackingError, match="file is not a database"):
        writer(tmp_path).open_sweep(opening(tmp_path))


@pytest.mark.parametrize(
    ("status", "text", "is_advised"),
    [
        (403, "Invalid Host header", True),
        (403, '{"error_code": "PERMISSION_DENIED", "message": "no"}', True),
        (500, "run 403 of 1403 bytes", False),
        (404, '{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "run 403"}', False),
    ],
)
def test_allowed_hosts_are_advised_by_the_status_code(
    status: int, text: str, is_advised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(TrackingError) as caught:
            MlflowStore(f"http://127.0.0.1:{server.server_port}").run("1403")
        server.shutdown()
    assert ("--allowed-hosts" in str(caught.value)) == is_advised


def test_a_deleted_experiment_is_reported_with_the_way_back(home: Path) -> None:
    record(home)
    client = MlflowClient(tracking_uri=address(home))
    experiment = client.get_experiment_by_name("quickstart")
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(TrackingError, match="mlflow experiments restore"):
        record(home)


def test_passwords_are_not_shown() -> None:
    assert shown("postgresql://me:pw@host/db") == "postgresql://me:***@host/db"
    assert shown("sqlite:////a/b.db") == "sqlite:////a/b.db"


def test_a_sweep_that_ends_leaves_sqlite_knowing_its_tables(home: Path) -> None:
    assert "metrics" not in analysed(home)
    record(home, finished())
    assert {"runs", "metrics", "tags"} <= analysed(home)


def test_a_store_that_somebody_writes_to_is_not_kept_from_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("orchestrator.storage.tracking.mlflow_store._ANALYSE_WAIT_S", 0.0)
    caplog.set_level("DEBUG", "orchestrator.storage.tracking.mlflow_store")
    store = MlflowStore(address(home))
    with closing(sqlite3.connect(home / "mlflow.db")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        store.analyse()
    assert "is not analysed: database is locked" in caplog.text
    assert analysed(home) == set()


def analysed(home: Path) -> set[str]:
    """The tables of which SQLite has statistics."""
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        named = "SELECT name FROM sqlite_master WHERE name = 'sqlite_stat1'"
        if database.execute(named).fetchone() is None:
            return set()
        return {table for (table,) in database.execute("SELECT DISTINCT tbl FROM sqlite_stat1")}
