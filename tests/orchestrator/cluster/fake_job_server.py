"""A double of Ray's job server, at its HTTP boundary: it keeps requests, and jobs end as set."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_double import answering

TOKEN = "a" * 64


class JobServer:
    """Jobs by id; `next` has the changes that the next look-ups of a job make in it."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.packages: dict[str, bytes] = {}
        self.token: str | None = None
        self.next: list[dict[str, Any]] = []
        self.address = ""

    def add(self, sweep: str, number: int = 1, **details: Any) -> str:
        id = f"rnnsweep-{sweep}-{number}"
        self.jobs[id] = {**_job(id, {"rnnsweep_sweep": sweep}), "driver_node_id": "n", **details}
        return id

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        words = [word for word in path.split("/") if word][1:]
        if words == ["version"]:
            return 200, {"version": "4", "ray_version": "2.60.0"}
        if words[0] == "packages":
            if method == "PUT":
                self.packages[words[-1]] = body
            return (200 if words[-1] in self.packages else 404), {}
        if words == ["jobs"] and method == "POST":
            return self._submitted(json.loads(body))
        if words == ["jobs"]:
            return 200, list(self.jobs.values())
        if method == "DELETE":
            return 200, {"deleted": self.jobs.pop(words[1]) is not None}
        job = self.jobs[words[1]]
        if words[2:] == ["stop"]:
            self.next = [{"status": "STOPPED"}]
            return 200, {"stopped": True}
        if words[2:] == ["logs"]:
            return 200, {"logs": self.logs.get(words[1], "")}
        if words[2:]:
            return 404, {}
        job.update(self.next.pop(0) if self.next else {})
        return 200, job

    def _submitted(self, order: dict[str, Any]) -> tuple[int, Any]:
        id = order["submission_id"]
        if id in self.jobs:
            return 500, f"Traceback\nValueError: Job with submission_id {id} already exists."
        self.jobs[id] = {**_job(id, order.get("metadata")), **order, "driver_node_id": "n"}
        return 200, {"job_id": id, "submission_id": id}


def _job(id: str, metadata: dict[str, str] | None) -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "submission_id": id,
        "status": "RUNNING",
        "entrypoint": "",
        "start_time": 1_700_000_000_000,
        "metadata": metadata,
    }


@contextmanager
def serving() -> Iterator[JobServer]:
    server = JobServer()

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        given = request.headers.get("Authorization")
        if server.token is not None and given != f"Bearer {server.token}":
            return (403, "Invalid token") if given else (401, "Missing token")
        status, answered = server.answer(request.command, request.path, body)
        return status, answered if isinstance(answered, str) else json.dumps(answered)

    with answering(answer) as server.address:
        yield server
