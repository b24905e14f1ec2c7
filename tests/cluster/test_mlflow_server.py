"""The MLflow server as `infra/` starts it, on a real PostgreSQL: who may ask, under which name.

The command is the image's, the settings are those of the compose file, and the databases are made
by its own script; only ports and folders are others. It needs no namespaces.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.lab import postgresql, wait_for
from tests.lacking import skip_here

INFRA = Path(__file__).resolve().parents[2] / "infra"
DOCKERFILE = (INFRA / "images/mlflow.Dockerfile").read_text()
SECRET = {
    "MLFLOW_AUTH_ADMIN_USERNAME": "ada",
    "MLFLOW_AUTH_ADMIN_PASSWORD": "right horse battery",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(),
}
LOG_A_RUN = """
import mlflow
mlflow.set_experiment("sweep")
with mlflow.start_run() as run:
    mlflow.log_metric("step_ms", 2.5)
    mlflow.log_text("which kernel ran", "evidence.txt")
print(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/evidence.txt"))
"""

SWEEP = """
name: guarded
workload: tests.workloads.examples.echo_memory:run
settings: {epochs: 2}
search:
  sampler: random
  configs: 2
  space: {units: {low: 8, high: 16}}
  objectives: {loss: minimize}
arms: {implementations: [numpy/loop], hardware: [cpu]}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """MLflow's server and its databases."""

    port: int
    folder: Path
    database: Mapping[str, str]

    def status(self, path: str, user: str | None = None, host: str | None = None) -> int:
        """The status of an answer to `user:password`, asked for under a host's name."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if user is not None:
            token = base64.b64encode(user.encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        if host is not None:
            request.add_header("Host", host)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def query(self, database: str, sql: str) -> str:
        """What PostgreSQL answers."""
        return _psql(self.database, database, "-c", sql).strip()


def _psql(environ: Mapping[str, str], database: str, *arguments: str) -> str:
    programs = postgresql()
    assert programs is not None
    return subprocess.run(
        [programs / "psql", "-v", "ON_ERROR_STOP=1", "-qAt", "-d", database, *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@contextlib.contextmanager
def _process(log: Path, *command: str | Path, **environ: str) -> Iterator[None]:
    with (
        log.open("wb") as output,
        subprocess.Popen(
            list(map(str, command)),
            env={**os.environ, **environ},
            stdout=output,
            stderr=output,
            cwd=log.parent,
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


@contextlib.contextmanager
def _database(folder: Path) -> Iterator[dict[str, str]]:
    """PostgreSQL with a password; the variables that lead to it."""
    programs = postgresql()
    assert programs is not None
    user = (
        []
        if os.geteuid()
        else ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    )
    (folder / "password").write_text("a % password")
    initdb = f"-D {folder}/data -U mlflow -A scram-sha-256 -N --pwfile {folder}/password"
    subprocess.run(
        [*user, str(programs / "initdb"), *initdb.split()],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    environ = {"PGHOST": str(folder), "PGUSER": "mlflow", "PGPASSWORD": "a % password"}
    log = folder / "postgres.log"
    with _process(log, *user, programs / "postgres", "-D", folder / "data", *options.split()):
        wait_for(lambda: "ready to accept connections" in log.read_text(), 60, "PostgreSQL")
        _psql(environ, "postgres", "-c", "CREATE DATABASE mlflow")  # as the image does
        _psql(environ, "mlflow", "-f", str(INFRA / "compose/mlflow-auth.sql"))
        yield environ


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if postgresql() is None:
        skip_here("PostgreSQL is not installed (Debian: postgresql)")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    (shown,) = re.findall(r"^CMD (\[.*?\])$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    command = [each.replace("5000", str(port)) for each in json.loads(shown)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mlflow-")))
        folder.chmod(0o777)  # PostgreSQL's own user writes there, too
        database = stack.enter_context(_database(folder))
        environ = {
            **database,
            **SECRET,
            "MLFLOW_AUTH_CONFIG_PATH": str(INFRA / "images/mlflow-auth.ini"),
            "MLFLOW_SERVER_ALLOWED_HOSTS": f"127.0.0.1:{port},mlflow:5000",
            "MLFLOW_ARTIFACTS_DESTINATION": str(folder / "artifacts"),
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }
        log = folder / "mlflow.log"
        stack.callback(lambda: print(log.read_text()))
        stack.enter_context(_process(log, sys.executable, "-m", *command, **environ))
        wait_for(lambda: "startup complete" in log.read_text(), 120, "MLflow server")
        yield Server(port, folder, database)


def test_who_is_unknown_gets_nothing_but_the_health_check(server: Server) -> None:
    search = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=Default"
    assert server.status("/health") == 200
    assert server.status(search) == 401
    assert server.status(search, user="ada:wrong") == 401
    known = f"ada:{SECRET['MLFLOW_AUTH_ADMIN_PASSWORD']}"
    assert server.status(search, user=known) == 200
    assert server.status(search, user=known, host="mlflow:5000") == 200
    assert server.status(search, user=known, host="evil.example.org") == 403
    assert server.status("/health", host="10.1.2.3:5000") == 200, "as Kubernetes asks"


def test_a_run_and_its_files_are_kept_for_a_user_of_the_credentials_file(server: Server) -> None:
    home = server.folder / "home"
    (home / ".mlflow").mkdir(parents=True)
    (line,) = re.findall(
        r"^ +printf (.*) \\$", (INFRA / "cloud/README.md").read_text(), re.MULTILINE
    )
    form = shlex.split(line)[0].replace("\\n", "\n")
    (home / ".mlflow/credentials").write_text(form % ("ada", SECRET["MLFLOW_AUTH_ADMIN_PASSWORD"]))
    environ = {
        **os.environ,
        "HOME": str(home),
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{server.port}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    done = subprocess.run(
        [sys.executable, "-c", LOG_A_RUN], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "which kernel ran" in done.stdout
    assert [path.read_text() for path in server.folder.glob("artifacts/**/evidence.txt")] == [
        "which kernel ran"
    ]
    assert server.query("mlflow", "SELECT value FROM metrics") == "2.5"


def test_users_stand_in_a_database_of_their_own(server: Server) -> None:
    assert server.query("mlflow_auth", "SELECT username, is_admin FROM users") == "ada|t"
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'users'"
    assert server.query("mlflow", tables) == "0"


def test_a_sweep_is_recorded_there_by_who_has_the_password(server: Server, tmp_path: Path) -> None:
    spec = tmp_path / "sweep.yaml"
    spec.write_text(SWEEP)
    environ = {
        **os.environ,
        "RNNSWEEP_HOME": str(tmp_path / "home"),
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{server.port}",
        "MLFLOW_TRACKING_USERNAME": SECRET["MLFLOW_AUTH_ADMIN_USERNAME"],
    }

    def rnnsweep(*command: str, password: str) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-c", "from orchestrator.cli.main import main; main()", *command]
        with_it = {**environ, "MLFLOW_TRACKING_PASSWORD": password}
        return subprocess.run(
            call, env=with_it, cwd=INFRA.parent, capture_output=True, text=True, check=False
        )

    refused = rnnsweep("run", str(spec), password="wrong")
    assert refused.returncode == 2, refused.stderr
    assert "Traceback" not in refused.stderr
    assert re.search("(?i)401|password|unauthor|authenti", refused.stderr), refused.stderr
    known = SECRET["MLFLOW_AUTH_ADMIN_PASSWORD"]
    done = rnnsweep("run", str(spec), password=known)
    assert done.returncode == 0, done.stderr
    report = rnnsweep("report", "guarded", "--format", "json", password=known)
    assert json.loads(report.stdout)["sweep"]["state"] == "complete"
    outcomes = "SELECT value FROM tags WHERE key = 'outcome'"
    assert server.query("mlflow", outcomes).split() == ["complete", "complete"]
