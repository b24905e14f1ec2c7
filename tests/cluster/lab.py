"""A real cluster on one machine: a Ray head, unlike workers, and MLflow on PostgreSQL."""

import itertools
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tests.building.specs import USER_WORKLOAD, build_spec_text
from tests.cluster.hosts import NONE, ROOT, Host, Switch
from tests.commands import Command, Done, wait_for
from tests.nvml.simulated import FILE, SimulatedGpu, SimulatedNvml, library

PARENT = "mlflow.parentRunId"
HOME = "/root/rnnsweep-data"
PROJECT = "/root/project"
STEADY: Mapping[str, Any] = {
    **USER_WORKLOAD,
    "workload": "steady:train",
    "settings": {"epochs": 20},
    "configs": 4,
    "space": {"units": {"low": 50, "high": 300}},
    "objectives": {"val_accuracy": "maximize"},
}
_NVML = "/root/nvml"
_STORE_BYTES = 80_000_000
_RUNS = """
import json, mlflow, sys
runs = mlflow.search_runs(experiment_names=sys.argv[1:], output_format="list")
print(json.dumps([{"status": run.info.status, "tags": run.data.tags} for run in runs]))
"""


def postgresql() -> Path | None:
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent
    return next((path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")), None)


def database_commands(data: str, initdb: str, postgres: str) -> tuple[list[str], list[str]]:
    programs = postgresql()
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    first = [] if os.geteuid() else user
    create = f"{programs}/initdb -D {data} -U mlflow -N {initdb}"
    serve = f"{programs}/postgres -D {data} -c fsync=off {postgres}"
    return [*first, *create.split()], [*first, *serve.split()]


class Lab:
    def __init__(self) -> None:
        self.switch = Switch()
        self._token = secrets.token_hex(32)
        self.store = f"http://{Host.address_of('mlflow')}:5000"
        self.dashboard = f"http://{Host.address_of('head')}:8265"

    def open(self) -> Self:
        self.mlflow = self.switch.plug("mlflow", with_code=True)
        self.mlflow.write("/root/.ray/auth_token", self._token)
        self.head = self._ray_host("head")
        self.laptop = self.switch.plug("laptop", with_code=True)
        self.laptop.write("/root/.ray/auth_token", self._token)
        self.laptop.write(f"{PROJECT}/steady.py", (ROOT / "tests/cluster/steady.py").read_text())
        steady, gpu = self._ray_host("steady", cpus=[0]), self._ray_host("gpu", cpus=[0, 1])
        with ThreadPoolExecutor() as pool:
            serving = pool.submit(self._serve_runs)
            self._ray(
                self.head,
                "--head",
                "--port=6379",
                "--num-cpus=0",
                "--num-gpus=0",
                "--dashboard-host=0.0.0.0",
                "--dashboard-port=8265",
            )
            joining = pool.submit(self.join, steady)
            self.join(gpu, gpus=1)
            joining.result()
            serving.result()
        return self

    def close(self) -> None:
        self.switch.close()

    def worker(self, name: str, cpus: list[int]) -> Host:
        host = self._ray_host(name, cpus=cpus)
        self.join(host)
        return host

    def join(self, host: Host, gpus: int = 0) -> None:
        cpus = host.run("nproc").expect().out.strip()
        head = f"--address={Host.address_of('head')}:6379"
        environ = self._simulated_gpu(host) if gpus else {}
        self._ray(host, head, f"--num-cpus={cpus}", f"--num-gpus={gpus}", environ=environ)

    def spec(self, name: str, **changes: Any) -> str:
        self.laptop.write(f"{PROJECT}/{name}.yaml", build_spec_text(STEADY, name=name, **changes))
        return f"{name}.yaml"

    def submit(self, spec: str, *options: str) -> Command:
        arguments = ["rnnsweep", "submit", spec, "--address", self.dashboard, *options]
        return self.laptop.start(*arguments, cwd=PROJECT, environ=self._store_named())

    def rnnsweep(self, *arguments: str) -> Done:
        """Run a command on a host that neither belongs to the cluster nor submits."""
        return self.mlflow.run("rnnsweep", *arguments, cwd="/root", environ=self._store_named())

    def at_a_distance(self, *arguments: str) -> Done:
        """Run a command there with the address of the cluster."""
        return self.rnnsweep(*arguments, "--address", self.dashboard)

    def finished(self, sweep: str) -> list[dict[str, Any]]:
        journal = f"{HOME}/sweeps/{sweep}/1/journal.jsonl"
        lines = self.head.run("cat", journal).out.split("\n")[:-1]
        records = [json.loads(line) for line in lines]
        alone = [line["finished"] for line in records if line["record"] == "trial_finished"]
        rounds = [line["finished"] for line in records if line["record"] == "round_finished"]
        return [*alone, *itertools.chain.from_iterable(rounds)]

    def children(self, sweep: str) -> list[dict[str, Any]]:
        done = self.mlflow.run("python", "-c", _RUNS, sweep, environ=self._store_named()).expect()
        runs: list[dict[str, Any]] = json.loads(done.out.splitlines()[-1])
        parents = [run for run in runs if PARENT not in run["tags"]]
        assert [run["status"] for run in parents] == ["FINISHED"], parents
        return [run for run in runs if PARENT in run["tags"]]

    def expect_exactly_once(self, sweep: str, trials: int) -> list[dict[str, Any]]:
        children = self.children(sweep)
        keys = [run["tags"]["trial_key"] for run in children]
        assert len(keys) == len(set(keys)) == trials
        assert {run["status"] for run in children} == {"FINISHED"}
        assert {run["tags"]["outcome"] for run in children} == {"complete"}
        finished = [record["trial"]["key"] for record in self.finished(sweep)]
        assert sorted(finished) == sorted(keys)
        return children

    def expect_end(self, sweep: str, timeout_s: float = 600) -> str:
        command = ["rnnsweep", "logs", sweep, "--follow", "--address", self.dashboard]
        done = self.mlflow.run(*command, timeout_s=timeout_s)
        assert done.code == 0, done
        return done.out

    def wait_for_a_trial(self, sweep: str, node: str) -> None:
        wait_for(
            lambda: any(record["outcome"]["node"] == node for record in self.finished(sweep)),
            describe=lambda: self.at_a_distance("logs", sweep).out,
            every_s=0.3,
        )

    def _store_named(self) -> dict[str, str]:
        return {"MLFLOW_TRACKING_URI": self.store}

    def _ray_host(self, name: str, cpus: list[int] | None = None) -> Host:
        host = self.switch.plug(name, cpus=cpus or ())
        host.write("/root/.ray/auth_token", self._token)
        return host

    def _ray(self, host: Host, *options: str, environ: Mapping[str, str] = NONE) -> None:
        host.run(
            "ray",
            "start",
            f"--node-ip-address={host.address}",
            f"--object-store-memory={_STORE_BYTES}",
            *options,
            environ=environ,
        ).expect()

    def _simulated_gpu(self, host: Host) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            values = SimulatedNvml([SimulatedGpu()]).write(Path(folder))
            for file in (library(), values):
                host.write(f"{_NVML}/{file.name}", file.read_bytes())
        return {"LD_LIBRARY_PATH": _NVML, FILE: f"{_NVML}/{values.name}"}

    def _serve_runs(self) -> None:
        host = self.mlflow
        options = "-c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp"
        create, serve = database_commands("/tmp/data", "-A trust", options)
        host.run(*create).expect()
        self._postgres = host.start(*serve)
        self._postgres.until("ready to accept connections")
        self._server = host.start(
            "mlflow",
            "server",
            "--host",
            "0.0.0.0",
            "--port",
            "5000",
            "--workers",
            "1",
            "--backend-store-uri",
            "postgresql+psycopg2://mlflow@127.0.0.1/postgres",
            "--artifacts-destination",
            "/tmp/artifacts",
            "--allowed-hosts",
            f"{host.address}:5000",
            environ={"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"},
        )
        self._server.until("startup complete")
