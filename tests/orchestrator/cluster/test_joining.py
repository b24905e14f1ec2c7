"""The code bundle on a cluster's nodes, and errors where they cannot run it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.cluster import connection
from tests.orchestrator.sample_plans import node

Join = Callable[..., dict[str, Any]]


class RayError(Exception):
    """As `ray.exceptions` has it."""


@pytest.fixture
def join(monkeypatch: pytest.MonkeyPatch) -> Join:
    """Join a cluster whose Ray fails at `init` or at its first task; return its options."""

    def join(
        at_init: Exception | None = None,
        at_task: Exception | None = None,
        address: str = "auto",
    ) -> dict[str, Any]:
        received: dict[str, Any] = {}

        def init(**options: Any) -> None:
            env = options["runtime_env"] or {}
            folder = Path(env.get("working_dir", "."))
            received.update(options, files=sorted(path.name for path in folder.iterdir()))
            if at_init is not None:
                raise at_init

        def nodes() -> list[dict[str, Any]]:
            if at_task is not None:
                raise at_task
            return []

        ray = SimpleNamespace(
            init=init, nodes=nodes, shutdown=lambda: None, exceptions=SimpleNamespace()
        )
        ray.exceptions.RayError = RayError
        monkeypatch.setitem(sys.modules, "ray", ray)
        with pytest.raises(connection.ClusterError) as refused, connection.connect(address):
            pass
        return {**received, "error": str(refused.value)}

    monkeypatch.setattr(connection, "token_settings", lambda: {})
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    return join


def test_a_token_for_a_cluster_without_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class ActorDiedError(RayError):
        pass

    def get(_: object) -> None:
        raise ActorDiedError("all references to the actor were removed")

    ended = SimpleNamespace(here=SimpleNamespace(remote=lambda: None))
    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(ActorDiedError=ActorDiedError))
    monkeypatch.setitem(sys.modules, "ray", ray)
    asked: list[str] = []

    def pinned(_: object, node_id: str) -> SimpleNamespace:
        asked.append(node_id)
        return SimpleNamespace(remote=lambda: ended)

    monkeypatch.setattr(connection, "pinned", pinned)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(
        connection.ClusterError, match="set RAY_AUTH_MODE=disabled for this command"
    ):
        connection._expect_actors([node("a")])
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    connection._expect_actors([node("a")])
    assert asked == ["a"], "nothing is tried where no token is shown"


def test_our_code_goes_to_the_nodes(join: Join) -> None:
    received = join()
    assert received["files"] == ["orchestrator", "rnnsweep", "workloads"]
    assert not Path(received["runtime_env"]["working_dir"]).exists()  # Ray has taken it by then


def test_a_heads_name_is_resolved(join: Join) -> None:
    """Ray, given a name, waits for ever (2.60)."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        assert join(address=f"localhost:{port}")["address"] == f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("http://10.0.0.5:8265", "; with a dashboard's address use rnnsweep submit"),
        ("10.0.0.5", ""),
        (":6379", ""),
        ("10.0.0.5:70000", ""),
    ],
)
def test_an_address_that_is_no_heads_is_refused(address: str, hint: str) -> None:
    with (
        pytest.raises(connection.ClusterError, match="expected HOST:PORT of a Ray head") as refused,
        connection.connect(address),
    ):
        pass
    assert str(refused.value).endswith(f"received {address!r}{hint}")


def test_within_a_job_everything_has_come_already(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}, "metadata": {}}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(job))
    assert join()["runtime_env"] is None


def test_other_versions_are_no_missing_cluster(join: Join) -> None:
    error = join(
        RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.12.4\n"
            "This process on node 10.0.0.9 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
        )
    )["error"]
    assert "Python: 3.12.4" in error and "Python: 3.11.7" in error
    assert "no Ray cluster answers" not in error


def test_a_node_without_dependencies_is_reported(join: Join) -> None:
    trace = "ray::probe()\n  Traceback\nModuleNotFoundError: No module named 'pynvml'"
    error = join(at_task=RayError(trace))["error"]
    assert "No module named 'pynvml'" in error and "Traceback" not in error
    assert "requirements.lock" in error
    silent = join(at_task=RayError(""))["error"]
    assert "cannot run rnnsweep's code: RayError. The code is copied" in silent
