"""Run `rnnsweep` as a user does: commands in processes, a home, its journals and its store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import yaml
from mlflow import MlflowClient

from tests.orchestrator.sample_sweeps import fresh_home

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).with_name("rnnsweep")
MIXED = "tests.integration.mixed:by_kernel"
PARENT = "mlflow.parentRunId"

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

    def refused(self, *words: str) -> Done:
        """Check for exit code 2, an empty stdout and these words on stderr; return self."""
        self.expect(2)
        assert self.out == ""
        for word in words:
            assert word in self.err, f"expected {word!r} in\n{self.err}"
        return self


class Command:
    """A running command, with its output in files."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path) -> None:
        out, err = self._files = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environ,
            cwd=cwd,
        )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def has_printed(self, words: str) -> bool:
        """Return True if the command has ended or has written these words to stderr."""
        return not self.running or words in self._text(1)

    @property
    def printed(self) -> str:
        """The command's stdout so far."""
        return self._text(0)

    def wait(self, timeout_s: float = 120) -> Done:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {timeout_s} s:\n{self._text(1)}") from None
        return Done(self.process.returncode, self._text(0), self._text(1))

    def _text(self, number: int) -> str:
        return os.pread(self._files[number].fileno(), 10_000_000, 0).decode()


class Home:
    """A sweep home: runs commands on it and reads its journals and its store."""

    def __init__(self, path: Path, gate: Path | None = None, address: str | None = None) -> None:
        self.path = path
        self.address = address
        """The Ray cluster that sweeps join; None for a Ray of their own."""
        self.gate = gate or path.with_name("gate")
        """The file for which waiting workloads wait."""

    def run(
        self, *arguments: object, cwd: Path = ROOT, timeout_s: float = 180, **environ: str
    ) -> Done:
        """Run a command and wait for its end."""
        return self._command(arguments, cwd, environ).wait(timeout_s)

    @contextmanager
    def running(self, *arguments: object, **environ: str) -> Iterator[Command]:
        """Run a command during the block; kill it if the block fails."""
        command = self._command(arguments, ROOT, environ)
        try:
            yield command
        finally:
            if command.running:
                command.process.kill()
                command.wait()

    def spec(self, name: str, **changes: Any) -> Path:
        """Write the spec of a minimal sweep with these keys changed, and return its path."""
        body = {
            "name": name,
            "workload": MIXED,
            "settings": {} if "workload" in changes else {"gate": str(self.gate)},
            "search": {
                "sampler": "random",
                "configs": 2,
                "space": {"units": {"low": 4, "high": 64}},
                "objectives": {"val_accuracy": "maximize"},
            },
            "arms": {"implementations": ["python/a", "python/b"], "hardware": ["cpu"]},
        }
        path = self.path.parent / f"{name}.yaml"
        path.write_text(yaml.safe_dump(_merged(body, changes), sort_keys=False))
        return path

    @property
    def waiting(self) -> Path:
        """The file that a workload creates when it begins to wait for the gate."""
        return self.gate.with_name("gate.waiting")

    @property
    def database(self) -> Path:
        return self.path / "mlflow.db"

    def sweep(self, name: str) -> Path:
        return self.path / "sweeps" / name

    def journal(self, name: str, generation: int = 1) -> list[Json]:
        try:
            text = (self.sweep(name) / str(generation) / "journal.jsonl").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def finished(self, name: str, generation: int = 1) -> list[Json]:
        journal = self.journal(name, generation)
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
        processes = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("RNNSWEEP_HOME") == str(self.path)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
            except psutil.Error:
                continue
        return processes

    def expect_nothing_running(self, within_s: float = 150) -> None:
        """Wait until no process of this home is running; Ray's agents may take a minute."""
        wait_for(lambda: not self.processes(), within_s, lambda: str(self.processes()), every_s=0.3)

    def _runs(self, name: str) -> list[Any]:
        client = self.client()
        experiment = client.get_experiment_by_name(name)
        ids = [experiment.experiment_id] if experiment else []
        return list(client.search_runs(ids, max_results=1000, order_by=["start_time ASC"]))

    def _command(
        self, arguments: Sequence[object], cwd: Path, changes: Mapping[str, str]
    ) -> Command:
        joins = arguments[0] == "run" and self.address is not None
        words = [*arguments, *(("--address", self.address) if joins else ())]
        return Command([str(word) for word in words], {**self.environ(), **changes}, cwd)

    def environ(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
        return {**inherited, "RNNSWEEP_HOME": str(self.path), "COLUMNS": "120"}


def new_home(folder: Path, address: str | None = None) -> Home:
    """Return a home in `folder` with an empty store."""
    return Home(fresh_home(folder), address=address)


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """Start a separate cluster of one node; yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="head-"))  # a short path, for sockets
    options = [
        "--block", "--head", "--node-ip-address=127.0.0.1", f"--port={port}",
        "--include-dashboard=false", "--disable-usage-stats",
        f"--temp-dir={folder}",
    ]  # fmt: skip
    log = (folder / f"ray-{port}.log").open("w")
    process = subprocess.Popen(
        [COMMAND.with_name("ray"), "start", *options],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        wait_for(lambda: listens(port) or process.poll() is not None, 60)
        assert process.poll() is None, Path(log.name).read_text()
        yield f"127.0.0.1:{port}", process.pid
    finally:
        kill_whole(process.pid)
        process.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def kill_whole(pid: int, name: str = "") -> None:
    """Kill a process and its descendants, optionally only those of this name."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            if name in member.name():
                member.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


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


def _merged(body: Json, changes: Mapping[str, Any]) -> Json:
    merged = dict(body)
    for key, value in changes.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        merged[key] = _merged(dict(old or {}), value) if both else value
    return merged
