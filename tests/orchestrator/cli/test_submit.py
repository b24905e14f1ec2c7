"""`rnnsweep submit` and what goes with it, with a double of Ray's job server at its boundary."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cluster import jobs
from orchestrator.cluster.jobs import store_for
from orchestrator.core.errors import Refusal
from orchestrator.core.start_command import StartCommand
from orchestrator.diagnostics.hardware_listing import hardware_json
from orchestrator.hardware import classify
from orchestrator.report.render import render, summarise
from orchestrator.spec import load_spec, parse_spec
from tests.building.hardware import build_node
from tests.building.specs import build_spec_text
from tests.commands import python
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.cluster.fake_job_server import TOKEN, JobServer, serving
from tests.orchestrator.report.golden import crossing


@pytest.fixture
def server() -> Iterator[JobServer]:
    with serving() as server:
        yield server


@pytest.fixture
def there(run: Run, server: JobServer, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(jobs, "_POLL_S", 0.01)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:9")  # --address comes before it
    return lambda *arguments: run(*arguments, "--address", server.address)


STORE = "http://me:hush@mlflow.example:5000"
SPEC_WITH_PRICES = f"{build_spec_text()}prices: bills.yaml\n"


@dataclass(frozen=True, slots=True)
class Submitted:
    """What `rnnsweep submit` printed on stderr, and the job that Ray was given."""

    err: str
    job: Mapping[str, Any]

    @property
    def words(self) -> list[str]:
        """The command line of the job."""
        return shlex.split(self.job["entrypoint"])

    @property
    def environ(self) -> Mapping[str, str]:
        environ: Mapping[str, str] = self.job["runtime_env"]["env_vars"]
        return environ


@pytest.fixture
def submitted(server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """A sweep with a file of prices and a password of the tracker, submitted and left alone."""
    Path("mine.yaml").write_text(SPEC_WITH_PRICES)
    price = "{hardware: cpu, usd_per_hour: 0.5, source: it's a bill, date: 2026-11-21}"
    Path("bills.yaml").write_text(f"prices:\n- {price}\n")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", STORE)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hush")
    code, out, err = there("submit", "mine.yaml", "--set", "settings.epochs=2", "--detach")
    assert (code, out) == (0, "")
    return Submitted(err, server.jobs["rnnsweep-mine-1"])


def test_a_password_is_neither_printed_nor_in_the_command_and_its_user_is_warned(
    submitted: Submitted,
) -> None:
    assert "hush" not in submitted.err
    assert "hush" not in submitted.job["entrypoint"]
    assert "Ray writes it into its logs" in submitted.err


def test_the_job_runs_the_spec_with_its_prices_and_overrides(submitted: Submitted) -> None:
    words = submitted.words
    assert words[:6] == ["exec", "python", "-m", "orchestrator", "run", "sweep.yaml"]
    assert words[6:8] == ["--address", "auto"]
    overrides = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    text = SPEC_WITH_PRICES  # the job has no file of prices
    sent = parse_spec(text, source="sweep.yaml", overrides=overrides)
    assert sent == load_spec(Path("mine.yaml"), ["settings.epochs=2"])


def test_a_stopped_job_names_the_command_of_this_machine(submitted: Submitted) -> None:
    typed = StartCommand.from_json(submitted.words[submitted.words.index("--typed-as") + 1])
    assert typed.words[:4] == ("rnnsweep", "submit", "mine.yaml", "--address")
    assert typed.overrides == ("settings.epochs=2",)


def test_the_job_has_the_tracker_its_password_and_time_to_stop(submitted: Submitted) -> None:
    expected = {
        "RNNSWEEP_HOME": "~/rnnsweep-data",
        "MLFLOW_TRACKING_URI": STORE,
        "MLFLOW_TRACKING_PASSWORD": "hush",
    }
    assert submitted.environ.items() >= expected.items()
    assert int(submitted.environ["RAY_JOB_STOP_WAIT_TIME_S"]) > 50


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        pytest.param({"status": "SUCCEEDED"}, 0, id="succeeded"),
        pytest.param({"status": "STOPPED"}, 3, id="stopped by a person"),
        pytest.param(
            {"status": "FAILED", "end_time": 1700000100000, "driver_exit_code": 1},
            1,
            id="failed with exit code 1",
        ),
        pytest.param(
            {"status": "FAILED", "end_time": 1700000100000, "driver_exit_code": -9},
            3,
            id="killed by a signal",
        ),
        pytest.param(
            {
                "status": "FAILED",
                "end_time": 1700000100000,
                "driver_node_id": None,
                "message": "could not unpack",
            },
            2,
            id="failed before it ran anywhere",
        ),
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


def test_a_quiet_start_prints_its_report_alone(server: JobServer, there: Run) -> None:
    server.logs["rnnsweep-mine-1"] = (
        "2026-11-28 21:14:05,123\tINFO job_manager.py:581 -- Runtime env is setting up.\n"
        "Running entrypoint for job rnnsweep-mine-1: exec python -m orchestrator run\n"
        "the report\n"
    )
    server.next = [{}, {"status": "SUCCEEDED"}]
    assert there("submit", "mine.yaml", "--quiet") == (0, "the report\n", "")


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


def test_one_sweep_of_a_name_runs_at_a_time(server: JobServer, there: Run) -> None:
    there("submit", "mine.yaml", "--detach")
    code, _, err = there("submit", "mine.yaml")
    assert code == 2 and "already running there" in err and "rnnsweep stop mine" in err
    server.add("mine", 9, status="STOPPED")
    server.add("other", 11)
    assert there("submit", "mine.yaml", "--detach")[0] == 0
    assert set(server.jobs) == {
        f"rnnsweep-{name}" for name in ("mine-1", "mine-9", "mine-10", "other-11")
    }


def test_the_sweeps_of_a_cluster_are_shown_and_stopped(server: JobServer, there: Run) -> None:
    server.logs[server.add("mine")] = "1/3  block 0\n2/3  block 1\n"
    server.add("other", status="STOPPED", end_time=1_700_000_100_000)
    server.jobs["raysubmit_x"] = {**server.jobs["rnnsweep-mine-1"], "submission_id": "raysubmit_x"}
    code, out, _ = there("status")
    mine, log, other = out.splitlines()
    assert code == 0 and mine.startswith("mine: running (rnnsweep-mine-1)")
    assert log.strip() == "2/3  block 1"
    assert other.startswith("other: stopped, can be resumed")
    code, _, err = there("status", "nobody")
    assert code == 2 and "mine, other" in err
    assert there("logs", "mine")[:2] == (0, "1/3  block 0\n2/3  block 1\n")
    code, _, err = there("stop", "mine")
    assert code == 0 and "stopped, can be resumed" in err
    code, _, err = there("stop", "mine")
    assert code == 2 and "is not running" in err


def fetched_from(
    server: JobServer, content: str, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """Let jobs write a file of this content; return the orders of jobs as they come."""
    ordered = list[dict[str, Any]]()

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        if method == "POST":
            ordered.append(json.loads(body))
        elif path.endswith("/logs"):
            marker = ordered[0]["entrypoint"].partition("echo ")[2].partition(" &&")[0]
            return 200, {"logs": f"a message\n{marker}\n{content}"}
        return JobServer.answer(server, method, path, body)

    monkeypatch.setattr(server, "answer", answer)
    return ordered


def test_a_report_is_made_on_the_head_and_fetched(
    server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"RNNSWEEP_HOME": "~/there"}
    server.add("other")
    server.add("mine", start_time=1_800_000_000_000, runtime_env={"env_vars": environ})
    page = "<!doctype html>" * 99
    ordered = fetched_from(server, page, monkeypatch)
    server.next = [{}, {"status": "SUCCEEDED"}]
    assert there("report", "--baseline", "a b", "-o", "page.html")[0] == 0
    assert Path("page.html").read_text() == page
    assert ordered[0]["entrypoint"].startswith("python -m orchestrator report mine --format=html ")
    assert "'--baseline=a b'" in ordered[0]["entrypoint"]
    assert ordered[0]["runtime_env"]["env_vars"] == environ
    assert set(server.jobs) == {"rnnsweep-mine-1", "rnnsweep-other-1"}, "the job is not kept"
    assert there("report", "nobody")[0] == 2


@pytest.mark.parametrize(
    ("typed", "entry"),
    [
        (("query", "mine", "units > 8", "--sort", "-step_ms"), "query mine --format=table"),
        (("best", "mine", "--min", "val_accuracy=0.9", "--code"), "best mine --code"),
    ],
)
def test_trials_and_best_configs_are_read_on_the_head_too(
    server: JobServer,
    there: Run,
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
    entry: str,
) -> None:
    server.add("mine")
    ordered = fetched_from(server, "what the head wrote\n", monkeypatch)
    server.next = [{}, {"status": "SUCCEEDED"}]
    assert there(*typed)[:2] == (0, "what the head wrote\n")
    assert ordered[0]["entrypoint"].startswith(f"python -m orchestrator {entry} ")
    for word in typed[2:]:
        assert word.removeprefix("--") in ordered[0]["entrypoint"]


def test_two_sweeps_of_a_cluster_are_compared_by_their_reports(
    server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("mine")
    report = render(summarise(crossing()), "json")
    ordered = fetched_from(server, report, monkeypatch)
    server.next = [{}, {"status": "SUCCEEDED"}, {}, {"status": "SUCCEEDED"}]
    code, _, err = there("compare", "mine#1", "mine#2")
    assert code == 2 and "both sides are the same sweep" in err, "the same report was fetched"
    entries = [order["entrypoint"].split(" -o ")[0] for order in ordered]
    assert entries == [
        "python -m orchestrator report 'mine#1' --format=json",
        "python -m orchestrator report 'mine#2' --format=json",
    ]


def test_the_doctor_lists_the_nodes_that_a_job_on_the_head_finds(
    server: JobServer, there: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    node = build_node("worker", 8, gpus=1)
    ordered = fetched_from(server, json.dumps(hardware_json(classify([node]))), monkeypatch)
    server.next = [{"status": "SUCCEEDED"}]
    code, out, _ = there("doctor", "--format", "json")
    found = {check["name"]: check["text"] for check in json.loads(out)["checks"]}
    assert "8 CPUs, 1 GPU" in found[node.profile.hostname]
    assert code == 0 and " hardware --address auto --format json " in ordered[0]["entrypoint"]
    assert not server.jobs, "the job is not kept"


@pytest.mark.parametrize("token", [None, "b" * 64])
def test_a_missing_or_wrong_token_is_reported(
    server: JobServer, tmp_path: Path, token: str | None
) -> None:
    """The command has a process of its own: Ray reads its configuration but once."""
    server.token = TOKEN
    if token is not None:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(token)
    command = ("-m", "orchestrator", "status", "--address", server.address)
    python(*command, environ={"HOME": str(tmp_path)}).refused("auth_token")


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:////home/me/mlflow.db",
        "mlruns",
        "http://localhost:5000",
        "postgresql://me:hush@localhost/mlflow",
    ],
)
def test_a_store_of_this_machine_is_for_a_cluster_on_it_alone(uri: str) -> None:
    with pytest.raises(Refusal, match="MLFLOW_TRACKING_URI") as refused:
        store_for("http://10.0.0.5:8265", {"MLFLOW_TRACKING_URI": uri})
    assert "hush" not in str(refused.value)
    environ = {"MLFLOW_TRACKING_URI": "http://localhost:5000"}
    assert store_for("http://127.0.0.1:8265", {**environ, "HOME": "/root"}) == environ
