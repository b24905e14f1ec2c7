"""The MLflow server of `infra/`, by its image's command and its settings, on a PostgreSQL."""

import contextlib
import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.building.specs import USER_WORKLOAD, build_spec_text
from tests.cluster.lab import database_commands, postgresql
from tests.commands import Command, Done, python
from tests.integration.sweeping import free_port
from tests.lacking import skip_here

INFRA = Path(__file__).resolve().parents[2] / "infra"
DOCKERFILE = (INFRA / "images/mlflow.Dockerfile").read_text()
SECRET = {
    "MLFLOW_AUTH_ADMIN_USERNAME": "ada",
    "MLFLOW_AUTH_ADMIN_PASSWORD": "right horse battery",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(),
}
SWEEP = build_spec_text(
    USER_WORKLOAD,
    name="guarded",
    workload="tests.workloads.examples.echo_memory:run",
    settings={"epochs": 2},
    configs=2,
    space={"units": {"low": 8, "high": 16}},
)


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    folder: Path
    database: Mapping[str, str]

    def status(self, path: str, password: str = "", **headers: str) -> int:
        """Return the status of a request, of the user ada if there is a password."""
        user = ("ada", password) if password else None
        url = f"http://127.0.0.1:{self.port}{path}"
        return requests.get(url, auth=user, headers=headers, timeout=120).status_code

    def query(self, database: str, sql: str) -> str:
        return _psql(self.database, database, "-c", sql).strip()


def _psql(environ: Mapping[str, str], database: str, *arguments: str) -> str:
    psql = [f"{postgresql()}/psql", "-v", "ON_ERROR_STOP=1", "-qAt", "-d", database, *arguments]
    return Command(psql, {**os.environ, **environ}).done().expect().out


@contextlib.contextmanager
def _running(command: Sequence[str], words: str, environ: Mapping[str, str]) -> Iterator[None]:
    server = Command(command, {**os.environ, **environ})
    try:
        server.until(words)
        yield
    finally:
        server.terminate()
        server.wait(180)
        print(server.printed())


@contextlib.contextmanager
def _database(folder: Path) -> Iterator[dict[str, str]]:
    (folder / "password").write_text("a % password")
    create, serve = database_commands(
        f"{folder}/data",
        f"-A scram-sha-256 --pwfile {folder}/password",
        f"-c listen_addresses= -c unix_socket_directories={folder}",
    )
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
    environ = {"PGHOST": str(folder), "PGUSER": "mlflow", "PGPASSWORD": "a % password"}
    with _running(serve, "ready to accept connections", {}):
        _psql(environ, "postgres", "-c", "CREATE DATABASE mlflow")  # as the image does
        _psql(environ, "mlflow", "-f", str(INFRA / "compose/mlflow-auth.sql"))
        yield environ


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if postgresql() is None:
        skip_here("PostgreSQL is not installed (Debian: postgresql)")
    port = free_port()
    (words,) = re.findall(r"^CMD (\[.*?\])$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    command = [word.replace("5000", str(port)) for word in json.loads(words)]
    with tempfile.TemporaryDirectory(prefix="mlflow-") as name:
        folder = Path(name)
        folder.chmod(0o777)  # PostgreSQL's own user writes there as well
        with _database(folder) as database:
            environ = {
                **database,
                **SECRET,
                "MLFLOW_AUTH_CONFIG_PATH": str(INFRA / "images/mlflow-auth.ini"),
                "MLFLOW_SERVER_ALLOWED_HOSTS": f"127.0.0.1:{port},mlflow:5000",
                "MLFLOW_ARTIFACTS_DESTINATION": str(folder / "artifacts"),
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                "MLFLOW_DISABLE_TELEMETRY": "true",
            }
            with _running([sys.executable, "-m", *command], "startup complete", environ):
                yield Server(port, folder, database)


def test_an_unknown_user_may_only_request_the_health_check(server: Server) -> None:
    search = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=Default"
    assert server.status("/health") == 200
    assert server.status(search) == 401
    assert server.status(search, "wrong") == 401
    password = SECRET["MLFLOW_AUTH_ADMIN_PASSWORD"]
    assert server.status(search, password) == 200
    assert server.status(search, password, Host="mlflow:5000") == 200
    assert server.status(search, password, Host="evil.example.org") == 403
    assert server.status("/health", Host="10.1.2.3:5000") == 200, "as Kubernetes' probes ask"


def test_a_sweep_is_recorded_for_the_user_of_the_credentials_file(
    server: Server, tmp_path: Path
) -> None:
    home, spec = tmp_path / "user", tmp_path / "sweep.yaml"
    spec.write_text(SWEEP)
    (home / ".mlflow").mkdir(parents=True)
    (line,) = re.findall(
        r"^ +printf (.*) \\$", (INFRA / "cloud/README.md").read_text(), re.MULTILINE
    )
    form = shlex.split(line)[0].replace("\\n", "\n")
    environ = {
        **os.environ,
        "HOME": str(home),
        "RNNSWEEP_HOME": str(tmp_path / "home"),
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{server.port}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }

    def rnnsweep(*command: object, password: str) -> Done:
        (home / ".mlflow/credentials").write_text(form % ("ada", password))
        return python("-m", "orchestrator", *command, environ=environ, cwd=INFRA.parent)

    refused = rnnsweep("run", spec, password="wrong").expect(2)
    assert re.search("(?i)401|password|unauthor|authenti", refused.err), refused.err
    password = SECRET["MLFLOW_AUTH_ADMIN_PASSWORD"]
    rnnsweep("run", spec, password=password).expect()
    report = rnnsweep("report", "guarded", "--format", "json", password=password)
    assert json.loads(report.out)["sweep"]["state"] == "complete"
    (path,) = server.folder.glob("artifacts/**/spec.yaml")
    assert "name: guarded" in path.read_text()
    outcomes = "SELECT value FROM tags WHERE key = 'outcome'"
    assert server.query("mlflow", outcomes).split() == ["complete", "complete"]
    # users have a database of their own
    assert server.query("mlflow_auth", "SELECT username, is_admin FROM users") == "ada|t"
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'users'"
    assert server.query("mlflow", tables) == "0"
