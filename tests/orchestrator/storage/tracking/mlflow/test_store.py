"""The addresses of stores, and the errors of stores that cannot be used."""

import base64
import json
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from sqlalchemy.exc import OperationalError

from orchestrator.storage.tracking.mlflow import ui_views
from orchestrator.storage.tracking.mlflow.address import (
    root_url,
    without_mlflow_passwords,
)
from orchestrator.storage.tracking.mlflow.mlflow_errors import mlflow_errors_translated
from orchestrator.storage.tracking.mlflow.store import MlflowStore
from orchestrator.storage.tracking.reader import find, read_stored_sweep
from orchestrator.storage.tracking.tracker import StoredRun
from orchestrator.storage.tracking.tracking_errors import StoreAway, SweepNotFound, TrackingError
from orchestrator.storage.tracking.trial_content import trial_content
from orchestrator.storage.tracking.writer import Writer
from tests.building.stores import build_home, build_opening, mlflow_address
from tests.building.trials import IDENTITY, build_failed_trial, build_full_trial
from tests.http_double import answering
from tests.orchestrator.storage.tracking.recording import record

SWEEP_RUN = StoredRun("1", "1", "quickstart", "running", 0, {})
CONTENT = trial_content(IDENTITY, build_full_trial())


@pytest.mark.parametrize(
    "uri",
    [
        pytest.param(
            "postgresql+psycopg2://me:se/secret@host@db/x",
            id="a database, whose password has delimiters",
        ),
        pytest.param(
            "postgresql://host/db?user=me&password=secret&sslmode=require",
            id="a database, with a password in the query",
        ),
    ],
)
def test_passwords_are_never_shown(uri: str) -> None:
    assert (
        "secret" not in without_mlflow_passwords(uri)
        and "***" in without_mlflow_passwords(uri)
        and "me" in without_mlflow_passwords(uri)
    )
    assert root_url("https://me:secret@host/mlflow/") == "https://host/mlflow"
    assert without_mlflow_passwords("http://host/a?next_token=5") == "http://host/a?next_token=5"


def test_a_home_with_a_hostile_name(tmp_path: Path) -> None:
    home = build_home(tmp_path / "50%20 a#b?c&d ü")
    record(home, build_failed_trial())
    assert record(home) == [build_failed_trial()]
    assert {path.name for path in home.iterdir()} >= {"mlflow.db", "mlartifacts"}


def test_reading_makes_no_store(tmp_path: Path) -> None:
    assert find(mlflow_address(tmp_path), "quickstart") == (0, None, "")
    with pytest.raises(SweepNotFound, match=r"no sweep 'quickstart' in .*mlflow\.db"):
        read_stored_sweep(mlflow_address(tmp_path), "quickstart")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        pytest.param("sqlite:///{}/no.db", "file is not a database", id="no database"),
        pytest.param(
            "postgresql://me:secret@127.0.0.1:9/db", "postgresql", id="no database server"
        ),
        pytest.param(
            "file:///tmp/mlruns",
            "use sqlite:///PATH or a server",
            id="a folder, which MLflow no longer uses",
        ),
    ],
)
def test_a_store_that_cannot_be_used_is_reported_soon(
    uri: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    (tmp_path / "no.db").write_text("this is not a database, " * 100)
    started_s = time.monotonic()
    with pytest.raises(TrackingError) as caught:
        Writer(uri.format(tmp_path), tmp_path).open(build_opening())
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert time.monotonic() - started_s < 100


_PAGE = "<!DOCTYPE html><html><head><title>\n{}</title></head></html>"
_MISSING = '{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "run 403"}'
_DENIED = '{"error_code": "PERMISSION_DENIED", "message": "Permission denied"}'


@pytest.mark.parametrize(
    ("status", "text", "received", "advice", "is_away"),
    [
        pytest.param(403, "Invalid Host header", "403", "--allowed-hosts", False, id="its host"),
        pytest.param(403, _DENIED, "PERMISSION", "MLFLOW_TRACKING_TOKEN", False, id="permission"),
        pytest.param(401, "", "401", "MLFLOW_TRACKING_PASSWORD", False, id="no login"),
        pytest.param(404, _MISSING, "run 403", "can be reached", False, id="no such run"),
        pytest.param(
            404, _PAGE.format("404"), "/api/2.0/mlflow/runs/get", "the path", False, id="old server"
        ),
        pytest.param(200, _PAGE.format("Sign in"), "(Sign in)", "login page", False, id="login"),
        pytest.param(
            403, _PAGE.format("Blocked"), "403 with a web page (Blocked)", "TOKEN", False, id="wall"
        ),
        pytest.param(502, _PAGE.format("Bad"), "502", "behind it is running", True, id="proxy"),
    ],
)
def test_what_to_do_follows_from_the_answer_of_a_server(
    status: int,
    text: str,
    received: str,
    advice: str,
    is_away: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with refusing(status, text) as (store, _), pytest.raises(TrackingError) as caught:
        store.run("1403")
    _, was_received, next_step = caught.value.args
    assert received in was_received and "<" not in was_received
    assert advice in next_step
    assert caught.value.is_away == is_away


def test_a_full_disk_is_a_state_that_may_pass_and_no_statement_of_sql() -> None:
    raised = OperationalError("UPDATE tags", {"value": "x"}, Exception("database or disk is full"))
    with pytest.raises(StoreAway) as caught, mlflow_errors_translated("sqlite:////home/mlflow.db"):
        raise raised
    assert caught.value.is_away
    assert "UPDATE" not in str(caught.value) and "https" not in str(caught.value)


def test_the_creation_of_a_run_is_requested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried request whose first answer was only late would make a second run."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with refusing(500, "busy") as (store, requests):
        with pytest.raises(TrackingError):
            store.run("1")
        with pytest.raises(TrackingError):
            store.create_trial_run(SWEEP_RUN, CONTENT)
    assert requests == ["GET", "GET", "POST"]


@contextmanager
def refusing(status: int, text: str) -> Iterator[tuple[MlflowStore, list[str]]]:
    """Yield a store whose server refuses everything, and the methods of the requests."""
    requests: list[str] = []

    def refuse(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        requests.append(request.command)
        return status, text

    with answering(refuse) as uri:
        yield MlflowStore(uri), requests


def test_a_deleted_experiment_is_reported_with_the_way_back(home: Path) -> None:
    record(home)
    client = MlflowClient(tracking_uri=mlflow_address(home))
    experiment = client.get_experiment_by_name("quickstart")
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(TrackingError, match="mlflow experiments restore"):
        record(home)


def test_an_experiment_that_somebody_made_meanwhile_is_used(home: Path) -> None:
    store = MlflowStore(mlflow_address(home), home)
    made = MlflowClient(tracking_uri=mlflow_address(home)).create_experiment("quickstart")
    assert store._create_experiment("quickstart") == made


def test_the_end_of_a_sweep_updates_sqlites_statistics_unless_somebody_writes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def analysed() -> bool:
        query = "SELECT name FROM sqlite_master WHERE name = 'sqlite_stat1'"
        with closing(sqlite3.connect(home / "mlflow.db")) as database:
            return database.execute(query).fetchone() is not None

    monkeypatch.setattr("orchestrator.storage.tracking.mlflow.store._ANALYSE_WAIT_S", 0.0)
    with closing(sqlite3.connect(home / "mlflow.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        MlflowStore(mlflow_address(home)).settle()
    assert not analysed()
    record(home, build_full_trial())
    assert analysed()


def test_the_view_of_a_large_space_fits_what_mlflow_takes() -> None:
    space = {f"a_setting_of_some_length_{index}": {"low": 1, "high": 2} for index in range(60)}
    large = build_opening(replace(IDENTITY, search={"space": space})).manifest
    (tag,) = ui_views.view_tags("0" * 32, large, ()).values()
    assert len(tag) < 5000
    assert len(unpacked(tag)["compareRunCharts"]) > 60


def unpacked(tag: str) -> dict[str, Any]:
    return json.loads(zlib.decompress(base64.b64decode(tag.removeprefix("deflate;"))))
