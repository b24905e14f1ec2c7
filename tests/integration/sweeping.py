"""Run `rnnsweep` as a user does: commands in processes, a home, its journals and its store."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
from mlflow import MlflowClient

from tests.orchestrator.sample_specs import spec_text
from tests.orchestrator.sample_sweeps import fresh_home

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("rnnsweep")
PARENT = "mlflow.parentRunId"
SPEC: Mapping[str, Any] = {
    "name": "",
    "workload": "tests.integration.mixed:by_kernel",
    "sampler": "random",
    "configs": 2,
    "space": {"units": {"low": 4, "high": 64}},
    "objectives": {"val_accuracy": "maximize"},
    "implementations": ["python/a", "python/b"],
    "hardware": ["cpu"],
}

Json = dict[str, Any]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Done:
    """An ended command with its exit code and output."""

    code: int
    out: str
    err: str

    def expect(self, code: int) -> Done:
        """Check the exit code and that there is no traceback; return self."""
        assert self.code == code, f"exit code {self.code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.out + self.err, self.err
        return self

    def refused(self, *words: str) -> None:
        """Check for exit code 2, an empty stdout and these words on stderr."""
        self.expect(2)
        assert self.out == ""
        for word in words:
            assert word in self.err, f"expected {word!r} in\n{self.err}"


class Command(subprocess.Popen[bytes]):
    """A running command, with its output in files."""

    def __init__(self, words: Sequence[str], environ: Mapping[str, str]) -> None:
        out, err = self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(
            [COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environ,
            cwd=ROOT,
        )

    @property
    def running(self) -> bool:
        return self.poll() is None

    def printed(self, descriptor: int = 1) -> str:
        """Return the command's stdout (1) or stderr (2) so far."""
        return os.pread(self._files[descriptor - 1].fileno(), 10_000_000, 0).decode()

    def done(self, timeout_s: float = 120) -> Done:
        """Wait for the end."""
        try:
            self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout_s} s:\n{self.printed(2)}") from None
        return Done(self.returncode, self.printed(1), self.printed(2))


class Home:
    """A sweep home: runs commands on it and reads its journals and its store."""

    def __init__(self, path: Path, address: str | None = None) -> None:
        self.path = path
        self.address = address
        """The Ray cluster that sweeps join; None for a Ray of their own."""
        self.gate = path.with_name("gate")
        """The file for which waiting workloads wait."""
        self.waiting = path.with_name("gate.waiting")
        """The file that a workload creates when it begins to wait for the gate."""
        self.database = path / "mlflow.db"

    def run(self, *arguments: object, timeout_s: float = 180, **environ: str) -> Done:
        """Run a command and wait for its end."""
        return self._command(arguments, environ).done(timeout_s)

    @contextmanager
    def running(self, *arguments: object) -> Iterator[Command]:
        """Run a command during the block; kill it if it is still running after it."""
        command = self._command(arguments, {})
        try:
            yield command
        finally:
            command.kill()
            command.wait()

    def spec(self, name: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> Path:
        """Write the spec of a minimal sweep with these keys changed, and return its path."""
        gate = {} if "workload" in changes else {"gate": str(self.gate)}
        path = self.path.parent / f"{name}.yaml"
        path.write_text(
            spec_text(SPEC, name=name, settings={**gate, **(settings or {})}, **changes)
        )
        return path

    def sweep(self, name: str) -> Path:
        return self.path / "sweeps" / name

    def journal(self, name: str) -> list[Json]:
        """Return the records of the first generation; none before it begins."""
        path = self.sweep(name) / "1" / "journal.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def finished(self, name: str) -> list[Json]:
        journal = self.journal(name)
        finished = [one["finished"] for one in journal if one["record"].endswith("_finished")]
        return [trial for one in finished for trial in (one if isinstance(one, list) else [one])]

    def count(self, name: str, record: str) -> int:
        return sum(entry["record"] == record for entry in self.journal(name))

    def report(self, name: str, *arguments: object) -> Json:
        return json.loads(self.run("report", name, "--format", "json", *arguments).expect(0).out)

    def parents(self, name: str) -> list[Any]:
        """Return a sweep's parent runs in MLflow, the oldest first."""
        return [run for run in self._runs(name) if PARENT not in run.data.tags]

    def children(self, name: str) -> list[Any]:
        """Return a sweep's child runs in MLflow."""
        return [run for run in self._runs(name) if PARENT in run.data.tags]

    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.database}")

    def artifact(self, run: Any, path: str) -> str:
        return Path(run.info.artifact_uri.removeprefix("file://"), path).read_text()

    def expect_exactly_once(self, name: str, trials: int) -> None:
        """Check that the journal and MLflow hold the same trials, this many, each once."""
        finished = {record["trial"]["key"]: record["outcome"] for record in self.finished(name)}
        assert len(self.finished(name)) == len(finished) == trials
        assert len(self.parents(name)) == 1
        children = self.children(name)
        assert sorted(run.data.tags["trial_key"] for run in children) == sorted(finished)
        for run in children:
            outcome = finished[run.data.tags["trial_key"]]
            expected = "FAILED" if outcome["status"] == "failed" else "FINISHED"
            assert run.info.status == expected
            assert run.info.end_time == round(outcome["ended_s"] * 1000)
            metrics: Mapping[str, float] = outcome["metrics"]
            assert {key: run.data.metrics[key] for key in metrics} == metrics

    def processes(self) -> list[psutil.Process]:
        """Return the living processes of this home, which all have it in their environment."""
        return [
            process
            for process in psutil.process_iter(["environ", "status"])
            if (process.info["environ"] or {}).get("RNNSWEEP_HOME") == str(self.path)
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def expect_nothing_running(self) -> None:
        """Wait until no process of this home is running; Ray's agents may take a minute."""
        wait_for(lambda: not self.processes(), 150, lambda: str(self.processes()), every_s=0.3)

    def environ(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
        return {**inherited, "RNNSWEEP_HOME": str(self.path), "COLUMNS": "120"}

    def _runs(self, name: str) -> list[Any]:
        client = self.client()
        experiment = client.get_experiment_by_name(name)
        ids = [experiment.experiment_id] if experiment else []
        return list(client.search_runs(ids, max_results=1000, order_by=["start_time ASC"]))

    def _command(self, arguments: Sequence[object], changes: Mapping[str, str]) -> Command:
        joins = arguments[0] == "run" and self.address is not None
        words = [*arguments, *(("--address", self.address) if joins else ())]
        return Command([str(word) for word in words], {**self.environ(), **changes})


def new_home(folder: Path, address: str | None = None) -> Home:
    """Return a home in `folder` with an empty store."""
    return Home(fresh_home(folder), address)


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """Start a separate cluster of one node; yield its address and process id."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="head-"))  # a short path, for sockets
    options = ["--block", "--head", "--node-ip-address=127.0.0.1", f"--port={port}"]
    options += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}"]
    with (folder / "ray.log").open("w") as log:
        process = subprocess.Popen(
            [COMMAND.with_name("ray"), "start", *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(lambda: listens(port) or process.poll() is not None, 60)
        assert process.poll() is None, (folder / "ray.log").read_text()
        yield f"127.0.0.1:{port}", process.pid
    finally:
        kill_whole(process.pid)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def kill_whole(pid: int, name: str = "") -> None:
    """Kill a process and its descendants, optionally only those of this name."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                if name in member.name():
                    member.kill()


def wait_for(
    condition: Callable[[], Value],
    timeout_s: float,
    describe: Callable[[], str] = str,
    every_s: float = 0.02,
) -> Value:
    """Evaluate a condition repeatedly until its value is true, and return that value."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"nothing after {timeout_s} s; {describe()}"
        time.sleep(every_s)
    return value
