"""Nodes of a Ray cluster, and those that join, with doubles of Ray at its boundary."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import hardware
from orchestrator.cluster import connection, membership
from orchestrator.cluster.membership import Membership
from orchestrator.hardware import Gpu, Node, NodeProfile, classify
from tests.orchestrator.sample_plans import node

GPUS = tuple(Gpu(index, "NVIDIA T4", f"GPU-{index}", 16_000) for index in range(4))


class RayError(Exception):
    """As `ray.exceptions` has it."""


class Ray:
    """As much of Ray as `connection` uses; it may fail at `init` or at its first task."""

    exceptions = SimpleNamespace(RayError=RayError)
    at_init: Exception | None = None
    at_task: Exception | None = None

    def __init__(self, *resources: dict[str, float]) -> None:
        self._nodes = [
            {
                "NodeID": f"node-{index}",
                "Alive": True,
                "Resources": amounts,
                "Labels": {"ray.io/node-id": f"node-{index}", "zone": "b"},
            }
            for index, amounts in enumerate(resources)
        ]
        self.started: dict[str, Any] = {}
        self.environ: dict[str, str] = {}

    def init(self, **options: Any) -> None:
        self.started, self.environ = options, dict(os.environ)
        folder = Path((options.get("runtime_env") or {}).get("working_dir", "."))
        self.files = sorted(path.name for path in folder.iterdir())
        if self.at_init is not None:
            raise self.at_init

    def shutdown(self) -> None: ...

    def nodes(self) -> list[dict[str, Any]]:
        if self.at_task is not None:
            raise self.at_task
        return self._nodes

    def remote(self, function: Callable[..., Any]) -> SimpleNamespace:
        task = SimpleNamespace(remote=function)
        return SimpleNamespace(options=lambda **_: task)

    def get(self, values: list[Any]) -> list[Any]:
        return values


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Ray], Ray]]:
    def install(ray: Ray) -> Ray:
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    def probe(*, every_gpu: bool = False) -> NodeProfile:
        gpus = GPUS if every_gpu else hardware.visible_gpus(GPUS, "2,3")
        return NodeProfile("host", "CPU A", 8, 8_000, gpus, None, "Linux", "3.11")

    monkeypatch.setattr(hardware, "probe", probe)
    monkeypatch.setattr(connection, "token_settings", lambda: {})
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    yield install


def nodes_at(address: str | None) -> tuple[Node, ...]:
    with connection.connect(address) as nodes:
        return nodes


def test_ray_decides_which_nodes_take_part_with_how_many_gpus(use: Callable[[Ray], Ray]) -> None:
    use(Ray({"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}, {"memory": 1.0}, {"CPU": 0.5}))
    nodes = nodes_at("auto")
    assert [node.gpus for node in nodes] == [2, 0]
    cpu, gpu = classify(nodes)
    assert [[node.id for node in group.nodes] for group in (cpu, gpu)] == [["node-1"], ["node-0"]]
    use(Ray({"memory": 1.0}))
    with pytest.raises(connection.ClusterError, match=r"^no node of the Ray cluster has a CPU"):
        nodes_at("auto")


@pytest.mark.parametrize("address", ["auto", None])
def test_the_process_is_restored_after_a_connection(
    use: Callable[[Ray], Ray],
    with_a_lost_gpu: None,
    monkeypatch: pytest.MonkeyPatch,
    address: str | None,
) -> None:
    class Changing(Ray):
        """As Ray itself does when it starts."""

        def init(self, **options: Any) -> None:
            super().init(**options)
            os.environ["PYTHONBREAKPOINT"] = "ray.util.rpdb.set_trace"
            signal.signal(signal.SIGTERM, lambda *_: None)

    monkeypatch.setattr(connection, "token_settings", lambda: {"RAY_AUTH_MODE": "disabled"})
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "1")
    before = dict(os.environ), signal.getsignal(signal.SIGTERM)
    ray = use(Changing({"CPU": 8.0, "GPU": 4.0}))
    nodes_at(address)
    assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == before
    assert ray.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert ray.environ["RAY_CHDIR_TO_TRIAL_DIR"] == "1", "a user's own setting is kept"
    assert ray.environ.get("RAY_AUTH_MODE") == (None if address is None else "disabled")


@pytest.mark.parametrize("address", ["auto", None])
def test_rays_labels_of_a_node_are_kept(use: Callable[[Ray], Ray], address: str | None) -> None:
    use(Ray({"CPU": 8.0}))
    (node,) = nodes_at(address)
    assert node.labels == {"ray.io/node-id": "node-0", "zone": "b"}
    assert hash(node) == hash(node)


@pytest.fixture
def with_a_lost_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has four GPUs that answer, and one that does not."""
    faults = ("GPU 4 does not answer: GPU is lost",)
    profile = NodeProfile("host", "CPU A", 8, 8_000, GPUS, None, "Linux", "3.11")
    lost = dataclasses.replace(profile, gpu_faults=faults)
    monkeypatch.setattr(hardware, "probe", lambda **_: lost)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")


def test_a_lost_gpu_is_hidden_from_ray(use: Callable[[Ray], Ray], with_a_lost_gpu: None) -> None:
    ray = use(Ray({"CPU": 8.0, "GPU": 4.0}))
    (node,) = nodes_at(None)
    assert (ray.started["num_gpus"], node.gpus) == (4, 4)
    assert ray.environ["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1,GPU-2,GPU-3"


def test_ray_that_does_not_start_with_a_lost_gpu_is_refused(
    use: Callable[[Ray], Ray], with_a_lost_gpu: None
) -> None:
    ray = use(Ray({"CPU": 8.0}))
    ray.at_init = OSError("GPU is lost")  # its own NVML's error is of no class that it documents
    with pytest.raises(connection.ClusterError, match=r"does not answer.* CUDA_VISIBLE_DEVICES=-1"):
        nodes_at(None)


def refusal() -> str:
    with pytest.raises(connection.ClusterError) as refused:
        nodes_at("auto")
    return str(refused.value)


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


def test_our_code_goes_to_a_head_whose_name_is_resolved(use: Callable[[Ray], Ray]) -> None:
    """Ray, given a name, waits for ever (2.60)."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        ray = use(Ray({"CPU": 1.0}))
        nodes_at(f"localhost:{port}")
    assert ray.started["address"] == f"127.0.0.1:{port}"
    assert ray.files == ["orchestrator", "rnnsweep", "workloads"]
    assert not Path(ray.started["runtime_env"]["working_dir"]).exists()  # Ray has taken it by then


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
    use: Callable[[Ray], Ray], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}, "metadata": {}}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(job))
    ray = use(Ray({"CPU": 1.0}))
    nodes_at("auto")
    assert ray.started["runtime_env"] is None


def test_other_versions_are_no_missing_cluster(use: Callable[[Ray], Ray]) -> None:
    use(Ray()).at_init = RuntimeError(
        "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.12.4\n"
        "This process on node 10.0.0.9 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    )
    error = refusal()
    assert "Python: 3.12.4" in error and "Python: 3.11.7" in error
    assert "no Ray cluster answers" not in error


def test_a_node_without_dependencies_is_reported(use: Callable[[Ray], Ray]) -> None:
    ray = use(Ray())
    trace = "ray::probe()\n  Traceback\nModuleNotFoundError: No module named 'pynvml'"
    ray.at_task = RayError(trace)
    error = refusal()
    assert "No module named 'pynvml'" in error and "Traceback" not in error
    assert "requirements.lock" in error
    ray.at_task = RayError("")
    assert "cannot run rnnsweep's code: RayError. The code is copied" in refusal()


def alive(*ids: str) -> dict[str, Any]:
    """Return nodes as Ray lists them."""
    return {
        id_: {"NodeID": id_, "NodeManagerHostname": f"{id_}-host", "Resources": {"CPU": 2.0}}
        for id_ in ids
    }


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The result of each node's probe, by its id; None while it runs."""
    results: dict[str, Any] = {}
    monkeypatch.setattr(membership, "begin_probe", lambda ray_node: ray_node["NodeID"])
    monkeypatch.setattr(membership, "_result", results.get)
    return results


def test_a_node_that_joins_is_there_once_it_was_probed(answers: dict[str, Any]) -> None:
    members = Membership([node("a")])
    members._probe(alive("a", "late"))
    assert [member.id for member in members.nodes] == ["a"]
    answers["late"] = node("late").profile
    members._probe(alive("a", "late"))
    assert [member.id for member in members.nodes] == ["a", "late"]


def test_a_node_that_cannot_be_probed_is_given_up(
    answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = Membership([])
    answers["bare"] = RuntimeError("Traceback:\n  somewhere\nNo module named 'psutil'\n")
    members._probe(alive("bare"))
    assert members.unusable == {}, "it is probed once more"
    members._probe(alive("bare"))
    members._probe(alive("bare"))
    assert members.unusable == {"bare": "bare-host: No module named 'psutil'"}
    monkeypatch.setattr(membership, "begin_probe", lambda _: pytest.fail("probed again"))
    members._probe(alive("bare"))
