"""Recording while its process is suspended, its server's answers get lost, or its disk is full."""

import os
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest

from orchestrator.cli.output import put
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import FinishedTrial
from orchestrator.storage import journal
from orchestrator.storage.lock import Owner
from orchestrator.storage.tracking.errors import LeaseHeld, TrackingError
from orchestrator.storage.tracking.mlflow_store import MlflowStore
from orchestrator.storage.tracking.reader import read_sweep
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import BEAT_S, LEASE, LEASE_TAG, Lease
from tests.commands import wait_for
from tests.faults.conftest import Faults
from tests.http_double import answering
from tests.orchestrator.sample_sweeps import IDENTITY, address, finished, fresh_home, opening
from tests.orchestrator.storage.tracking.recording import new_writer, parent
from tests.orchestrator.storage.tracking.test_recorder import (
    TRIALS,
    expect_once,
    process_of_recorder,
    recorded,
    recorder,
)


@pytest.mark.full
def test_a_suspended_recorder_doubles_nothing(tmp_path: Path, faults: Faults) -> None:
    draw, rounds = faults(1, 1)
    for number in range(rounds):
        home = fresh_home(tmp_path / str(number))
        owner = replace(Owner.here(), host="elsewhere", machine="other-boot")
        with recorder(home) as first:
            first.open(opening(owner=owner))
            for trial in TRIALS:
                first.put(trial)
            begun, began_s = draw.randrange(1, 30), time.monotonic()
            wait_for(lambda: len(recorded(home)) >= begun)  # noqa: B023
            process = process_of_recorder()
            suspend_between_transactions(process, home)
            lapsed = LEASE.dump(Lease(owner, 1.0))
            store = MlflowStore(address(home), create=True)
            store.log(parent(home).info.run_id, tags={LEASE_TAG: lapsed})
            with recorder(home) as second:
                stored = {trial.key for trial in second.open(opening())[0]}
                for trial in TRIALS:
                    if trial.key not in stored:
                        second.put(trial)
                second.close("complete", {})
            time.sleep(max(0.0, BEAT_S + 2 - (time.monotonic() - began_s)))
            process.resume()
            with pytest.raises(LeaseHeld):
                first.drain(60)
        expect_once(home, TRIALS)


def suspend_between_transactions(process: psutil.Process, home: Path) -> None:
    """Suspend a process while it does not lock the file, as a server's client never does."""
    while True:
        process.suspend()
        try:
            with closing(sqlite3.connect(home / "mlflow.db", 0.2)) as database:
                database.execute("BEGIN EXCLUSIVE")
            return
        except sqlite3.OperationalError:
            process.resume()
            time.sleep(0.01)


@pytest.mark.full
def test_a_server_whose_answers_get_lost_has_each_trial_once(
    server: tuple[str, Path], tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, most = faults(10, 15)
    remaining, kinds = 0, ("refused", "lost", "half", "refused", "lost", "half", "late")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")

    def proxied(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        nonlocal remaining
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        is_faulty = remaining > 0 and draw.random() < 0.15
        remaining -= is_faulty
        fault = draw.choice(kinds) if is_faulty else ""
        if fault == "refused":
            return 503, b"<html>busy"
        status, content = forwarded(server[0], request, body)
        if fault == "late":
            time.sleep(6)
        if fault == "lost":
            return 502, b""
        return status, content[: len(content) // 2] if fault == "half" else content

    with answering(proxied) as uri, Recorder(uri, tmp_path, tmp_path / "recorder.log") as opened:
        opened.open(opening())
        remaining = most
        for trial in TRIALS:
            opened.put(trial)
        opened.drain(240)
        assert remaining < most
        opened.close("complete", {})
    read = read_sweep(server[0], IDENTITY.name)
    assert [(one.key, one.metrics) for one in read.trials] == [(t.key, t.metrics) for t in TRIALS]
    store = MlflowStore(server[0])
    runs = list(store.search([read.experiment_id], "tags.trial_key LIKE '%'"))
    assert (len(runs), {run.status for run in runs}) == (len(TRIALS), {"FINISHED"})


def forwarded(server: str, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
    kind = {"Content-Type": request.headers.get("Content-Type", "application/json")}
    asked = urllib.request.Request(server + request.path, body, kind, method=request.command)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted here: that needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, but_bytes: int) -> Path:
    """Write a file that leaves so many bytes of a disk, or a little less."""
    ballast = folder / "ballast"
    ballast.unlink(missing_ok=True)
    free = os.statvfs(folder)
    ballast.write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - but_bytes))
    return ballast


def test_a_full_disk_loses_nothing(small_disk: Path, faults: Faults) -> None:
    draw, rounds = faults(2, 4)
    for number in range(rounds):
        home = fresh_home(small_disk / str(number))
        writer, first = new_writer(home), journal.SweepOpened(IDENTITY, {})
        writer.open(opening())
        with journal.Journal(home / "1") as written:
            written.append(first)
            (report := home / "report.txt").write_text("whole")
            fill(small_disk, 0)
            with pytest.raises(Refusal, match="no space left"):
                put(b"x" * 10_000, report)
            assert report.read_text() == "whole" and not list(home.glob("report.txt.*"))
            ballast = fill(small_disk, draw.randrange(0, 60_000))
            kept = list[FinishedTrial]()
            with pytest.raises(OSError, match=r"No space left|disk full"):
                for block in range(10_000):
                    written.append(journal.TrialFinished(trial := finished(block)))
                    kept.append(trial)
            assert list(expect_journal(home).finished.values()) == kept
            with pytest.raises(TrackingError):
                for trial in [*kept, *TRIALS]:
                    writer.record([trial])
            ballast.unlink()
            written.append(journal.TrialFinished(trial := finished(len(kept))))
            assert list(expect_journal(home).finished.values()) == [*kept, trial]
        writer.record([*kept, trial])
        writer.close("complete", {})
        read = read_sweep(address(home), IDENTITY.name)
        assert {one.key: one for one in read.trials}.items() >= {t.key: t for t in kept}.items()
        assert len(recorded(home)) == len(set(recorded(home)))


def expect_journal(home: Path) -> journal.SweepState:
    state = journal.read(home / "1")
    assert state is not None
    return state
