"""Recording while its server's answers get lost."""

import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from orchestrator.storage.tracking.reader import read_stored_sweep
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.trackers import open_tracker
from tests.building.stores import build_opening
from tests.building.trials import IDENTITY
from tests.faults.conftest import Faults
from tests.http_double import answering
from tests.orchestrator.storage.tracking.test_recorder import TRIALS


@pytest.mark.full
def test_a_server_whose_answers_get_lost_has_each_trial_once(
    server: tuple[str, Path], tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, most = faults(8, 8)
    remaining, kinds = 0, ("refused", "lost", "half", "refused", "lost", "half", "late")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")

    def proxied(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        nonlocal remaining
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        is_first = remaining == most
        is_faulty = is_first or (remaining > 0 and draw.random() < 0.15)
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
        opened.open(build_opening())
        remaining = most
        for trial in TRIALS:
            opened.queue_trial(trial)
        opened.drain(600)
        assert remaining < most
        opened.close("complete", {})
    read = read_stored_sweep(server[0], IDENTITY.name)
    assert [(trial.key, trial.metrics) for trial in read.trials] == [
        (t.key, t.metrics) for t in TRIALS
    ]
    tracker = open_tracker(server[0])
    (sweep_run,) = tracker.sweep_runs(IDENTITY.name)
    runs = list(tracker.trial_runs(sweep_run))
    assert (len(runs), {run.status for run in runs}) == (len(TRIALS), {"finished"})


def forwarded(server: str, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
    kind = {"Content-Type": request.headers.get("Content-Type", "application/json")}
    asked = urllib.request.Request(server + request.path, body, kind, method=request.command)
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
