"""Sweeps as Ray jobs, by Ray's job server over HTTP: `rnnsweep-NAME-N`, one of a NAME at a time."""

import logging
import os
import re
import socket
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orchestrator.cluster import code_bundle, connection
from orchestrator.cluster.ray_process import reread_environment, restored_ray
from orchestrator.core.errors import Refusal, last_line
from orchestrator.storage.tracking.mlflow.address import (
    MLFLOW_CREDENTIALS,
    MLFLOW_SECRETS,
    MLFLOW_URI_VARIABLE,
    is_database,
)
from orchestrator.storage.tracking.trackers import local_path, without_passwords

State = Literal["waiting", "running", "ended", "failed", "stopped"]
"""`ended`: with exit code 0; `failed`: with any other, or it could not be started."""

STOP_WAIT_S = 90
"""How long a stopped sweep may take to record its results (Ray's own limit is 3 s)."""

_STATES: Mapping[str, State] = {
    "PENDING": "waiting",
    "RUNNING": "running",
    "SUCCEEDED": "ended",
    "FAILED": "failed",
    "STOPPED": "stopped",
}
_SWEEP = "rnnsweep_sweep"
_ANSWER_S, _REQUEST_S = 5.0, 60.0
_CHATTY = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
"""Ray's loggers that report every step of a submission."""

_AWAY_S = 600.0
"""How long to retry while a cluster is out of reach before the log is given up."""
_POLL_S = 1.0

_LINE_OF_RAY = re.compile(
    r"^(?:\S+ \S+\tINFO job_manager\.py:\d+ -- |Running entrypoint for job [\w-]+: ).*\n?", re.M
)
"""What Ray's job server writes into a job's log before the job does."""

_CONTENT = "rnnsweep: the content of a file follows"
"""The line of a job's log that is followed by a file."""

_NO_SUCH_HOST = (socket.EAI_NONAME, socket.EAI_NODATA)
"""Errors that last: the name of a host is wrong. Others may come from a network that is down."""

_LOCAL = (None, "localhost", "127.0.0.1", "::1", "0.0.0.0")


class SubmissionError(Refusal):
    """A request that the cluster's job server did not fulfil."""


class OutOfReach(SubmissionError):
    """A job server that does not answer, or not any more."""

    is_away = True


@dataclass(frozen=True, slots=True)
class Submitted:
    """A start of a sweep on the cluster. Times are seconds since the epoch."""

    id: str
    sweep: str
    state: State
    exit_code: int | None
    message: str
    began: bool
    started_s: float | None
    ended_s: float | None

    @property
    def is_active(self) -> bool:
        """Return whether it runs, or will run."""
        return self.state in ("waiting", "running")

    @property
    def number(self) -> int:
        """The number of the start among the starts of its sweep on this cluster, from 1."""
        return int(self.id.rpartition("-")[2])


class Cluster:
    """The job server of a cluster's head; `address` is its dashboard's: `http://10.0.0.5:8265`.

    Raise `SubmissionError` for no such address, no answer, or a token that is not the cluster's.
    """

    def __init__(self, address: str) -> None:
        self.address = _checked(address)
        with restored_ray():
            os.environ.update(connection.token_settings())
            for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"):
                os.environ.pop(name, None)  # they would silently win over --address
            reread_environment()
            self._client = self._ask(_client, self.address)

    def starts(self, sweep: str | None = None) -> list[Submitted]:
        """Return the starts of a sweep (or of all) on this cluster, the oldest first."""
        starts = map(_submitted, self._ask(self._client.list_jobs))
        ours = [start for start in starts if start and sweep in (None, start.sweep)]
        return sorted(ours, key=lambda start: (start.sweep, start.number))

    def latest(self, sweep: str) -> Submitted | None:
        """Return the latest start of a sweep; None if this cluster has had none."""
        return next(reversed(self.starts(sweep)), None)

    def submit(
        self, sweep: str, command: str, folder: Path, environ: Mapping[str, str]
    ) -> Submitted:
        """Send a start of a sweep, or return the one that somebody sent at the same moment.

        The shell command runs in a copy of `folder` on the head, with `environ` added to the
        variables there. The caller has checked that no start of that sweep is active.
        """
        before = self.latest(sweep)
        id = f"rnnsweep-{sweep}-{before.number + 1 if before else 1}"
        environ = {**environ, "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)}
        try:
            self._ask(
                self._client.submit_job,
                entrypoint=command,
                submission_id=id,
                runtime_env={"working_dir": str(folder), "env_vars": environ},
                metadata={_SWEEP: sweep},
            )
        except SubmissionError:
            existing = next((start for start in self.starts(sweep) if start.id == id), None)
            if existing is None or not existing.is_active:
                raise
            return existing
        return self.look(id)

    def look(self, id: str) -> Submitted:
        """Return a start of a sweep, as it is now."""
        start = _submitted(self._ask(self._client.get_job_info, id))
        if start is None:
            raise SubmissionError(f"{self.address}: job {id} is not one of rnnsweep's")
        return start

    def log(self, id: str) -> str:
        """Return the whole log of a start, without the lines of Ray's job server."""
        return _LINE_OF_RAY.sub("", str(self._ask(self._client.get_job_logs, id)))

    def fetch(self, command: str, file: str, name: str, like: str | None = None) -> str:
        """Run a shell command on the head in a copy of our code, and return the file that it makes.

        `name` is part of the job's. With `like`, the id of a start, it has the variables of that.
        Raise `SubmissionError` with the last line of its output if it fails.
        """
        environment = self._ask(self._client.get_job_info, like).runtime_env if like else None
        with tempfile.TemporaryDirectory(prefix="rnnsweep-fetch-") as folder:
            code_bundle.pack(Path(folder))
            job = self._ask(
                self._client.submit_job,
                # Ray keeps stdout and stderr of a job in one log.
                entrypoint=f"{command} && echo {_CONTENT} && cat {file}",
                submission_id=f"{like or 'rnnsweep'}-{name}-{time.time_ns()}",
                runtime_env={**(environment or {}), "working_dir": folder},
            )
        while not self._ask(self._client.get_job_status, job).is_terminal():
            time.sleep(_POLL_S)
        output = self.log(job) or str(self._ask(self._client.get_job_info, job).message)
        self._ask(self._client.delete_job, job)
        _, marker, content = f"\n{output}".partition(f"\n{_CONTENT}\n")
        if not marker:
            raise SubmissionError(f"{self.address}: {name} failed: {last_line(Refusal(output))}")
        return content

    def stop(self, id: str) -> Submitted:
        """Ask a start to stop, and wait until it has."""
        self._ask(self._client.stop_job, id)
        deadline_s = time.monotonic() + STOP_WAIT_S + 30
        while (start := self.look(id)).is_active:
            if time.monotonic() > deadline_s:
                raise SubmissionError(
                    f"{self.address}: {id} did not stop within {STOP_WAIT_S + 30} s. See rnnsweep "
                    f"logs {start.sweep} --address {self.address}"
                )
            time.sleep(_POLL_S)
        return start

    def follow(
        self, id: str, write: Callable[[str], None], warn: Callable[[str], None]
    ) -> Submitted:
        """Write a start's log as it grows, and return the start when it has ended."""
        # If the network is lost, `warn` is called once, and the log then continues without a gap.
        # If it is lost for longer, `OutOfReach` is raised.
        written, seen_s, warned = 0, time.monotonic(), False
        while True:
            try:
                start = self.look(id)  # before the log, which then has all of an ended start
                log = self.log(id)
                write(log[written:])
                written = max(written, len(log))
                if not start.is_active:
                    return start
                seen_s, warned = time.monotonic(), False
            except OutOfReach as error:
                if time.monotonic() - seen_s > _AWAY_S:
                    raise
                if not warned:
                    warn(f"{error}. Retrying for {_AWAY_S / 60:.0f} minutes; Ctrl-C gives up")
                warned = True
            time.sleep(_POLL_S)

    def _ask(self, question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the server's answer, or raise an error with the next step for the user."""
        import requests  # noqa: PLC0415
        from ray.exceptions import AuthenticationError  # noqa: PLC0415

        try:
            return question(*arguments, **options)
        except AuthenticationError as error:
            raise SubmissionError(
                f"{self.address}: the cluster refuses this machine's authentication token"
                f" ({_first_line(error)}). Copy the head's ~/.ray/auth_token to ~/.ray/auth_token "
                "here, or set RAY_AUTH_TOKEN"
            ) from error
        except (ConnectionError, requests.ConnectionError, requests.Timeout) as error:
            raise OutOfReach(_no_answer(self.address, error)) from error
        except (requests.RequestException, RuntimeError, ValueError, KeyError) as error:
            raise SubmissionError(
                f"{self.address}: Ray's job server answered with an error: "
                f"{last_line(error, escaped=True)}"
            ) from error


def _client(address: str) -> Any:
    """Return Ray's client of jobs, with a time limit for each request and without its chatter."""
    from ray.job_submission import JobSubmissionClient  # noqa: PLC0415  (seconds)

    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)

    class Client(JobSubmissionClient):
        """Ray's own client with a timeout; without one it would wait for ever."""

        def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
            options.setdefault("timeout", _REQUEST_S)
            return super()._do_request(method, endpoint, **options)

    return Client(address)


def _submitted(details: Any) -> Submitted | None:
    """Return a start from Ray's details of a job; None if the job is no sweep."""
    metadata = details.metadata or {}
    sweep, id = metadata.get(_SWEEP), details.submission_id
    if sweep is None or not re.fullmatch(rf"rnnsweep-{re.escape(sweep)}-\d+", id or ""):
        return None
    status = str(details.status.value)
    return Submitted(
        id=id,
        sweep=sweep,
        state=_STATES[status],
        exit_code=0 if status == "SUCCEEDED" else details.driver_exit_code,
        message=details.message or "",
        began=details.driver_node_id is not None,
        started_s=details.start_time / 1000 if details.start_time else None,
        ended_s=details.end_time / 1000 if details.end_time else None,
    )


def _checked(address: str) -> str:
    """Return the address of a dashboard that answers."""
    try:
        parts = urllib.parse.urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        parts, port = urllib.parse.urlsplit(""), None
    if port is None or not parts.hostname or parts.scheme not in ("http", "https"):
        raise SubmissionError(
            "--address: expected the address of the cluster's dashboard, such as "
            f"http://10.0.0.5:8265; received {address!r}"
        )
    try:
        socket.create_connection((parts.hostname, port), timeout=_ANSWER_S).close()
    except (OSError, UnicodeError) as error:
        if isinstance(error, UnicodeError) or getattr(error, "errno", None) in _NO_SUCH_HOST:
            raise SubmissionError(_no_answer(address, error)) from error
        raise OutOfReach(_no_answer(address, error)) from error
    return address.rstrip("/")


def _no_answer(address: str, error: Exception) -> str:
    return (
        f"no Ray dashboard answers at {address}: {_first_line(error).rstrip('.')}. It runs on the "
        "head of a cluster with ray[default]. To reach it from another machine, let it listen on "
        "all interfaces (ray start --head --dashboard-host 0.0.0.0) or use a tunnel"
    )


def _first_line(error: Exception) -> str:
    """Return the first sentence: Ray's errors continue with advice of their own."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].partition(". ")[0]


def store_for(address: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return MLflow's variables that a submitted sweep needs, or refuse its address."""
    uri = environ.get(MLFLOW_URI_VARIABLE, "").strip()
    if not uri:
        return {}
    parts = urllib.parse.urlsplit(uri)
    instead = (
        "Set a server that the head can reach (http://…), or unset the variable to use the head's "
        f"own {MLFLOW_URI_VARIABLE}, or a SQLite store there"
    )
    if local_path(uri) is not None or parts.scheme in ("", "file"):
        raise Refusal(f"{MLFLOW_URI_VARIABLE}: {uri} is a file on this machine. {instead}")
    over_network = parts.scheme in ("http", "https") or is_database(uri) or bool(parts.hostname)
    is_remote = urllib.parse.urlsplit(address).hostname not in _LOCAL
    if over_network and parts.hostname in _LOCAL and is_remote:
        raise Refusal(
            f"{MLFLOW_URI_VARIABLE}: on the head, {without_passwords(uri)} would be the head"
            f" itself, not this machine. {instead}"
        )
    credentials = {name: environ[name] for name in MLFLOW_CREDENTIALS if environ.get(name)}
    return {MLFLOW_URI_VARIABLE: uri, **credentials}


def describe_store(environ: Mapping[str, str], home: str) -> str:
    """Return where a submitted sweep records its trials, with a warning about a sent secret.

    `environ` are the variables that are sent (see `store_for`).
    """
    uri = environ.get(MLFLOW_URI_VARIABLE)
    if not uri:
        return (
            f"Trials are recorded in the head's own {MLFLOW_URI_VARIABLE}, or in {home}/mlflow.db"
            " there, because the variable is not set here"
        )
    shown = without_passwords(uri)
    text = f"Trials are recorded in {shown}"
    if shown == uri and not any(environ.get(name) for name in MLFLOW_SECRETS):
        return text
    return (
        f"{text}. MLflow's password is sent along, and Ray writes it into its logs. To avoid that, "
        "unset it here and store it in ~/.mlflow/credentials on the head"
    )
