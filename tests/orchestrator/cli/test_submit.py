"""`rnnsweep submit` and what goes with it, with a double of Ray's job server at its boundary."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cluster import jobs
from orchestrator.cluster.jobs import store_for
from orchestrator.core.errors import Refusal
from orchestrator.spec import load, parse
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.cluster.fake_job_server import TOKEN, JobServer, serving
from tests.orchestrator.sample_specs import spec_text

SPEC = spec_text()
STORE = "http://mlflow.example:5000"
FAILED = {"status": "FAILED", "end_time": 1_700_000_100_000}


@pytest.fixture
def server() -> Iterator[JobServer]:
    with serving() as server:
        yield server


@pytest.fixture
def there(run: Run, server: JobServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command with `--address` of the server: code, stdout, stderr."""
    monkeypatch.setattr(jobs, "_POLL_S", 0.01)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")  # --address comes before it
    return lambda *arguments: run(*arguments, "--address", server.address)


def test_the_sweep_goes_as_a_job_with_its_code(
    server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", STORE)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush")
    code, out, err = there("submit", "mine.yaml", "--set", "settings.epochs=2", "--detach")
    assert (code, out) == (0, "")
    assert "rnnsweep-mine-1" in err
    assert f"rnnsweep stop mine --address {server.address}" in err
    job = server.jobs["rnnsweep-mine-1"]
    words = shlex.split(job["entrypoint"])
    assert words[:6] == ["exec", "python", "-m", "orchestrator", "run", "sweep.yaml"]
    assert words[6:8] == ["--address", "auto"]
    assert words[words.index("--set") + 1] == "settings.epochs=2"
    assert words[words.index("--resume-command") + 1].startswith(
        "rnnsweep submit mine.yaml --address http"
    )
    environ = job["runtime_env"]["env_vars"]
    assert environ["RNNSWEEP_HOME"] == "~/rnnsweep-data"
    assert environ["MLFLOW_TRACKING_URI"] == STORE
    assert int(environ["RAY_JOB_STOP_WAIT_TIME_S"]) > 50  # what a stopped sweep may take
    assert {"sweep.yaml", "orchestrator/__main__.py", "workloads/__main__.py"} <= set(
        server.files()
    )


def test_prices_travel_though_their_file_does_not(
    server: JobServer, there: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(f"{SPEC}prices: bills.yaml\n")
    price = "{hardware: cpu, usd_per_hour: 0.5, source: it's a bill, date: 2026-11-21}"
    (tmp_path / "bills.yaml").write_text(f"prices:\n- {price}\n")
    assert there("submit", "mine.yaml", "--detach")[0] == 0
    words = shlex.split(server.jobs["rnnsweep-mine-1"]["entrypoint"])
    overrides = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    sent = parse(f"{SPEC}prices: bills.yaml\n", source="sweep.yaml", overrides=overrides)
    assert sent.prices == load(tmp_path / "mine.yaml").prices
    assert sent.prices[0].source == "it's a bill"


def test_credentials_travel_and_are_not_printed(
    server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hush@mlflow.example:5000")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush")
    server.next = [{"status": "SUCCEEDED"}]
    code, out, err = there("submit", "mine.yaml")
    assert code == 0
    assert "hush" not in out + err
    assert "Ray writes it into its logs" in err, "its user decides whether it may be there"
    job = server.jobs["rnnsweep-mine-1"]
    assert job["runtime_env"]["env_vars"]["MLFLOW_TRACKING_PASSWORD"] == "hush"
    assert "hush" not in job["entrypoint"]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"status": "SUCCEEDED"}, 0),
        ({**FAILED, "driver_exit_code": 1}, 1),
        ({**FAILED, "driver_exit_code": 2}, 2),
        ({**FAILED, "driver_exit_code": 3}, 3),
        ({"status": "STOPPED"}, 3),
        ({**FAILED, "driver_exit_code": -9}, 3),
        ({**FAILED, "message": "Job supervisor actor died"}, 3),
        ({**FAILED, "driver_node_id": None, "message": "could not unpack"}, 2),
    ],
)
def test_a_followed_sweep_ends_with_its_own_exit_code(
    server: JobServer, there: Run, end: dict[str, object], expected: int
) -> None:
    server.logs["rnnsweep-mine-1"] = "3/3  block 2\nthe report\n"
    server.next = [{}, {}, end]
    code, out, err = there("submit", "mine.yaml")
    assert code == expected
    assert out == "3/3  block 2\nthe report\n"  # once, however often it was asked for
    if "message" in end:
        assert str(end["message"]) in err


def test_a_cluster_out_of_reach_is_waited_for_and_reported_once(
    server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = server.add("mine")
    server.logs[id] = "1/3  block 0\n"
    answers = iter([None, 503, 503, 503, None])

    def answer(method: str, path: str, body: bytes) -> tuple[int, object]:
        if path.endswith(id) and next(answers, None) is not None:
            raise ConnectionResetError
        return JobServer.answer(server, method, path, body)

    monkeypatch.setattr(server, "answer", answer)
    server.next = [{}, {"status": "SUCCEEDED"}]
    code, out, err = there("logs", "mine", "--follow")
    assert (code, out) == (0, "1/3  block 0\n")
    assert err.count("Retrying for 10 minutes") == 1


def test_what_runs_already_is_followed(server: JobServer, there: Run) -> None:
    there("submit", "mine.yaml", "--detach")
    server.logs["rnnsweep-mine-1"] = "running\n"
    server.next = [{"status": "SUCCEEDED"}]
    code, out, err = there("submit", "mine.yaml")
    assert (code, out) == (0, "running\n")
    assert "running there already" in err
    assert list(server.jobs) == ["rnnsweep-mine-1"]


def test_another_sweep_of_the_name_is_refused_while_one_runs(server: JobServer, there: Run) -> None:
    server.add("mine")
    code, _, err = there("submit", "mine.yaml")
    assert code == 2
    assert "with another spec" in err and "rnnsweep stop mine" in err
    assert list(server.jobs) == ["rnnsweep-mine-1"]


def test_a_sweep_that_has_ended_is_submitted_once_more(server: JobServer, there: Run) -> None:
    server.add("mine", 1, status="STOPPED")
    server.add("mine", 9, status="SUCCEEDED")
    server.add("other", 11)
    assert there("submit", "mine.yaml", "--detach")[0] == 0
    assert "rnnsweep-mine-10" in server.jobs


def test_status_shows_the_progress_of_a_sweep(server: JobServer, there: Run) -> None:
    server.logs[server.add("mine")] = "1/3  block 0\n2/3  block 1\n"
    server.add("other", status="STOPPED", end_time=1_700_000_100_000)
    server.jobs["raysubmit_x"] = {**server.jobs["rnnsweep-mine-1"], "submission_id": "raysubmit_x"}
    code, out, _ = there("status")
    assert code == 0
    mine, log, other = out.splitlines()
    assert mine.startswith("mine: running (rnnsweep-mine-1)")
    assert log.strip() == "2/3  block 1"
    assert other.startswith("other: stopped, can be resumed")
    code, _, err = there("status", "nobody")
    assert code == 2 and "mine, other" in err


def test_stop_waits_for_the_end(server: JobServer, there: Run) -> None:
    server.add("mine")
    code, _, err = there("stop", "mine")
    assert code == 0 and "stopped, can be resumed" in err
    code, _, err = there("stop", "mine")
    assert code == 2 and "is not running" in err


def test_logs_are_printed(server: JobServer, there: Run) -> None:
    server.logs[server.add("mine")] = "one\ntwo\n"
    assert there("logs", "mine")[:2] == (0, "one\ntwo\n")
    server.next = [{**FAILED, "driver_exit_code": 1}]
    assert there("logs", "mine", "--follow")[:2] == (1, "one\ntwo\n")


@pytest.mark.parametrize("token", [None, "b" * 64])
def test_a_missing_or_wrong_token_is_reported(
    server: JobServer, tmp_path: Path, token: str | None
) -> None:
    server.token = TOKEN
    if token is not None:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(token)
    done = ask(server.address, tmp_path)
    assert done.returncode == 2
    assert "auth_token" in done.stderr and "Traceback" not in done.stderr


def ask(address: str, home: Path) -> subprocess.CompletedProcess[str]:
    """`rnnsweep status` in a process of its own: Ray reads its configuration but once."""
    command = [sys.executable, "-m", "orchestrator", "status", "--address", address]
    return subprocess.run(
        command, env={"HOME": str(home)}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "uri",
    [
        *("sqlite:////home/me/mlflow.db", "file:///home/me/mlruns", "mlruns"),
        *("http://localhost:5000", "http://127.0.0.1:5000"),
        "postgresql://me:hush@localhost/mlflow",
    ],
)
def test_a_store_of_this_machine_is_for_a_cluster_on_it_alone(uri: str) -> None:
    with pytest.raises(Refusal, match="MLFLOW_TRACKING_URI") as refused:
        store_for("http://10.0.0.5:8265", {"MLFLOW_TRACKING_URI": uri})
    assert "hush" not in str(refused.value)
    environ = {"MLFLOW_TRACKING_URI": "http://localhost:5000"}
    assert store_for("http://127.0.0.1:8265", {**environ, "HOME": "/root"}) == environ
