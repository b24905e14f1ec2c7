"""Run `rnnsweep` as a user does: commands in processes, a home, its journals and its store."""

import itertools
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from mlflow import MlflowClient

from tests.building.specs import build_spec_text
from tests.building.stores import build_home
from tests.commands import Command, Done, wait_for
from tests.ordinary_user import OrdinaryUser

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


class Home:
    def __init__(
        self, path: Path, address: str | None = None, user: OrdinaryUser | None = None
    ) -> None:
        self.path = path
        self.address = address
        """The Ray cluster that sweeps join; None for a Ray of their own."""
        self.user = user
        """The user that runs the commands; None for the one that runs the tests."""
        self.gate = path.with_name("gate")
        """The file for which waiting workloads wait."""
        self.waiting = path.with_name("gate.waiting")
        """The file that a workload creates when it begins to wait for the gate."""
        self.database = path / "mlflow.db"

    def run(self, *arguments: object, **environ: str) -> Done:
        return self._command(arguments, environ).done(600)

    @contextmanager
    def running(self, *arguments: object, **environ: str) -> Iterator[Command]:
        command = self._command(arguments, environ)
        try:
            yield command
        finally:
            command.kill()
            command.wait()

    def spec(self, name: str, settings: Mapping[str, Any] | None = None, **changes: Any) -> Path:
        gate = {} if "workload" in changes else {"gate": str(self.gate)}
        path = self.path.parent / f"{name}.yaml"
        path.write_text(
            build_spec_text(SPEC, name=name, settings={**gate, **(settings or {})}, **changes)
        )
        return path

    def sweep(self, name: str) -> Path:
        return self.path / "sweeps" / name

    def journal(self, name: str) -> list[Json]:
        path = self.sweep(name) / "1" / "journal.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def finished(self, name: str) -> list[Json]:
        journal = self.journal(name)
        finished = [
            record["finished"] for record in journal if record["record"].endswith("_finished")
        ]
        return [
            trial
            for record in finished
            for trial in (record if isinstance(record, list) else [record])
        ]

    def count(self, name: str, record: str) -> int:
        return sum(entry["record"] == record for entry in self.journal(name))

    def report(self, name: str, *arguments: object) -> Json:
        return json.loads(self.run("report", name, "--format", "json", *arguments).expect(0).out)

    def parents(self, name: str) -> list[Any]:
        return [run for run in self._runs(name) if PARENT not in run.data.tags]

    def children(self, name: str) -> list[Any]:
        return [run for run in self._runs(name) if PARENT in run.data.tags]

    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.database}")

    def artifact(self, run: Any, path: str) -> str:
        return Path(run.info.artifact_uri.removeprefix("file://"), path).read_text()

    def expect_exactly_once(self, name: str, trials: int, *, retried: bool = False) -> None:
        """Expect so many trials in journal and store, with their last outcome if `retried`."""
        finished = {record["trial"]["key"]: record["outcome"] for record in self.finished(name)}
        assert len(finished) == trials
        assert retried or len(self.finished(name)) == trials
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
        """Return the processes of this home; some may have ended, but for `process.info`."""
        return [
            process
            for process in psutil.process_iter(["environ", "status", "name", "cmdline"])
            if (process.info["environ"] or {}).get("RNNSWEEP_HOME") == str(self.path)
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def expect_nothing_running(self) -> None:
        """Wait until no process of this home is running; Ray's agents may take a minute."""
        wait_for(lambda: not self.processes(), 300, lambda: str(self.processes()), every_s=0.3)

    def environ(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
        environ = {**inherited, "RNNSWEEP_HOME": str(self.path), "COLUMNS": "120"}
        if self.user is not None:
            environ |= {"HOME": str(self.path), "RNNSWEEP_CACHE": str(self.path / "cache")}
        return environ

    def _runs(self, name: str) -> list[Any]:
        client = self.client()
        experiment = client.get_experiment_by_name(name)
        ids = [experiment.experiment_id] if experiment else []
        return list(client.search_runs(ids, max_results=1000, order_by=["start_time ASC"]))

    def _command(self, arguments: Sequence[object], changes: Mapping[str, str]) -> Command:
        joins = arguments[0] == "run" and self.address is not None
        words = [*arguments, *(("--address", self.address) if joins else ())]
        before = self.user.ours if self.user is not None else ()
        return Command([*before, COMMAND, *words], {**self.environ(), **changes}, ROOT)


def new_home(folder: Path, address: str | None = None, user: OrdinaryUser | None = None) -> Home:
    home = Home(build_home(folder), address, user)
    if user is not None:
        for path in (home.path, *home.path.rglob("*")):
            os.chown(path, user.uid, -1)
    return home


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="head-"))  # a short path, for sockets
    options = ["--block", "--head", "--node-ip-address=127.0.0.1", f"--port={port}"]
    options += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}"]
    ray = Command([COMMAND.with_name("ray"), "start", *options], os.environ)
    try:
        ray.until("Ray runtime started")  # the head listens earlier than its node is there
        yield f"127.0.0.1:{port}", ray.pid
    finally:
        kill_whole(ray.pid)
        ray.wait()
        shutil.rmtree(folder, ignore_errors=True)


_PORTS = itertools.count(21_000 + 10 * (os.getpid() % 1_000))


def free_port() -> int:
    """Return a port at which nobody listens, and which hardly anybody else takes before its use.

    It lies above the ports of Ray's workers, and below those that the kernel gives whoever asks
    for any; each process of tests begins at its own.
    """
    return next(port for port in _PORTS if not listens(port))


def listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def kill_whole(pid: int, name: str = "") -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                if name in member.name():
                    member.kill()
