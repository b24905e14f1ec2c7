"""Driving `rnnsweep` as a user does: the command in a process, its home, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
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
    """A command that has ended."""

    code: int
    out: str
    err: str

    def expect(self, code: int) -> Done:
        """Itself, if it ended with this exit code and no traceback."""
        assert self.code == code, f"exit code {self.code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.out + self.err, self.err
        return self

    def refused(self, *words: str) -> Done:
        """Itself, if it ended with exit code 2, nothing on stdout, and these words on stderr."""
        self.expect(2)
        assert self.out == ""
        for word in words:
            assert word in self.err, f"expected {word!r} in\n{self.err}"
        return self


class Command:
    """A command that is running, with its output in files."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path) -> None:
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed in wait())
        self._err = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env=environ,
            cwd=cwd,
        )

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def says(self, words: str) -> bool:
        """Whether it has ended or has written these words to stderr."""
        return not self.running or words in self._text()[1]

    @property
    def printed(self) -> str:
        """What it has written to stdout so far."""
        return self._text()[0]

    def wait(self, timeout_s: float = 120) -> Done:
        """Wait for its end."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {timeout_s} s:\n{self._text()[1]}") from None
        out, err = self._text()
        self._out.close()
        self._err.close()
        return Done(self.process.returncode, out, err)

    def _text(self) -> tuple[str, str]:
        texts = []
        for file in (self._out, self._err):
            texts.append(os.pread(file.fileno(), 10_000_000, 0).decode())
        return texts[0], texts[1]


class Home:
    """A sweep home: commands run on it, and what they leave in its journals and its store."""

    def __init__(self, path: Path, gate: Path | None = None) -> None:
        self.path = path
        self.gate = gate or path.with_name("gate")
        """The file that the workloads that wait, wait for."""

    def run(
        self, *arguments: object, cwd: Path = ROOT, timeout_s: float = 180, **environ: str
    ) -> Done:
        """Run a command to its end."""
        return self._command(arguments, cwd, environ).wait(timeout_s)

    @contextmanager
    def running(self, *arguments: object, **environ: str) -> Iterator[Command]:
        """A command that runs beside the test, and is killed if the test fails."""
        command = self._command(arguments, ROOT, environ)
        try:
            yield command
        finally:
            if command.running:
                command.process.kill()
                command.wait()

    def spec(self, name: str, **changes: Any) -> Path:
        """A spec file of that name: the plainest sweep, with these keys changed."""
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
        """The file that a workload makes when it begins to wait for the gate."""
        return self.gate.with_name("gate.waiting")

    @property
    def database(self) -> Path:
        """The store."""
        return self.path / "mlflow.db"

    def sweep(self, name: str) -> Path:
        """The folder of a sweep."""
        return self.path / "sweeps" / name

    def journal(self, name: str, generation: int = 1) -> list[Json]:
        """The whole records of a journal, without anything of ours to read them."""
        try:
            text = (self.sweep(name) / str(generation) / "journal.jsonl").read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def finished(self, name: str, generation: int = 1) -> list[Json]:
        """What the journal has of trials that ended."""
        found: list[Json] = []
        for each in self.journal(name, generation):
            if each["record"] == "trial_finished":
                found.append(each["finished"])
            elif each["record"] == "round_finished":
                found += each["finished"]
        return found

    def count(self, name: str, record: str) -> int:
        """How many records of a kind the journal has."""
        return sum(each["record"] == record for each in self.journal(name))

    def report(self, name: str, *arguments: object) -> Json:
        """`rnnsweep report NAME --format json`."""
        done = self.run("report", name, "--format", "json", *arguments).expect(0)
        report: Json = json.loads(done.out)
        return report

    def parents(self, name: str) -> list[Any]:
        """A sweep's parent runs in MLflow, the oldest first."""
        return [run for run in self._runs(name) if PARENT not in run.data.tags]

    def children(self, name: str) -> list[Any]:
        """A sweep's child runs in MLflow."""
        return [run for run in self._runs(name) if PARENT in run.data.tags]

    def client(self) -> MlflowClient:
        """MLflow's own client on the store."""
        return MlflowClient(f"sqlite:///{self.database}")

    def artifact(self, run: Any, path: str) -> str:
        """The text of a run's artifact."""
        folder = Path(run.info.artifact_uri.removeprefix("file://"))
        return (folder / path).read_text()

    def expect_exactly_once(self, name: str, trials: int) -> None:
        """The journal and MLflow both have so many trials, the same ones, each once."""
        finished = {each["trial"]["key"]: each["outcome"] for each in self.finished(name)}
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
        """Every living process that works for this home: they all have it in their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("RNNSWEEP_HOME") == str(self.path)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def expect_nothing_running(self, within_s: float = 150) -> None:
        """Wait until no process of this home is left; Ray's agents may take a minute to go."""
        found = lambda: f"left: {self.processes()}"  # noqa: E731
        wait_for(lambda: not self.processes(), within_s, found, every_s=0.3)

    def _runs(self, name: str) -> list[Any]:
        client = self.client()
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            return []
        ids = [experiment.experiment_id]
        return list(client.search_runs(ids, max_results=1000, order_by=["start_time ASC"]))

    def _command(
        self, arguments: Sequence[object], cwd: Path, changes: Mapping[str, str]
    ) -> Command:
        return Command([str(each) for each in arguments], {**self.environ(), **changes}, cwd)

    def environ(self) -> dict[str, str]:
        """The environment of a command on this home."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
        return {**kept, "RNNSWEEP_HOME": str(self.path), "COLUMNS": "120"}


def new_home(folder: Path) -> Home:
    """A home in `folder` with an empty store."""
    return Home(fresh_home(folder))


def wait_for(
    look: Callable[[], Value],
    timeout_s: float,
    otherwise: Callable[[], str] = str,
    every_s: float = 0.02,
) -> Value:
    """Look again and again until there is something to see; that."""
    deadline_s = time.monotonic() + timeout_s
    while not (seen := look()):
        assert time.monotonic() < deadline_s, f"nothing after {timeout_s} s; {otherwise()}"
        time.sleep(every_s)
    return seen


def _merged(body: Json, changes: Mapping[str, Any]) -> Json:
    merged = dict(body)
    for key, value in changes.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        merged[key] = _merged(dict(old or {}), value) if both else value
    return merged
