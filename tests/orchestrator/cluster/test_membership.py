"""Nodes that join and leave, polled from a double of Ray, and requests to an autoscaler."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from orchestrator.cluster import connection, membership
from orchestrator.cluster.membership import Membership, requested_nodes
from tests.building.hardware import build_node
from tests.commands import wait_for as eventually


class Cluster:
    """A cluster whose nodes answer tasks as a test wants; None while a task runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids = ["a"]
        self.probes: dict[str, Any] = {}
        self.pings: dict[str, Any] = {}
        self.begun: list[str] = []
        ray = SimpleNamespace(wait=self.wait, get=self.get, nodes=self.nodes)
        monkeypatch.setitem(__import__("sys").modules, "ray", ray)
        monkeypatch.setattr(membership, "begin_probe", self.begin_probe)
        monkeypatch.setattr(membership, "pinned", self.pinned)
        monkeypatch.setattr(membership, "_EVERY_S", 0.001)

    def nodes(self) -> list[dict[str, Any]]:
        usual = {"Alive": True, "Resources": {"CPU": 2.0}}
        return [{"NodeID": id_, "NodeManagerHostname": f"{id_}-host", **usual} for id_ in self.ids]

    def begin_probe(self, ray_node: dict[str, Any]) -> Callable[[], Any]:
        self.begun.append(ray_node["NodeID"])
        return lambda: self.probes.get(ray_node["NodeID"])

    def pinned(self, function: Callable[[], Any], node_id: str) -> Any:
        return SimpleNamespace(remote=lambda: lambda: self.pings.get(node_id) and function())

    def wait(self, references: list[Callable[[], Any]], timeout: float) -> tuple[list[Any], None]:
        return [reference for reference in references if reference() is not None], None

    def get(self, reference: Callable[[], Any]) -> Any:
        if isinstance(value := reference(), Exception):
            raise value
        return value


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def ids(members: Membership) -> list[str]:
    return [member.id for member in members.nodes]


def test_a_node_is_there_from_its_probe_until_it_leaves(cluster: Cluster) -> None:
    with Membership([build_node("a")]).watching() as members:
        cluster.ids.append("late")
        eventually(lambda: "late" in cluster.begun)
        assert ids(members) == ["a"]
        cluster.probes["late"] = build_node("late").profile
        eventually(lambda: ids(members) == ["a", "late"])
        cluster.ids.append("brief")
        eventually(lambda: "brief" in cluster.begun)
        cluster.ids = ["late"]
        eventually(lambda: ids(members) == ["late"])
        assert members.silent_s < 10
    assert cluster.begun == ["late", "brief"]


def test_a_node_that_cannot_be_probed_is_given_up(cluster: Cluster) -> None:
    error = RuntimeError("Traceback:\n  somewhere\nNo module named 'psutil'\n")
    cluster.ids, cluster.probes = ["a", "bare"], {"bare": error}
    with Membership([build_node("a")]).watching() as members:
        eventually(lambda: members.unusable)
        time.sleep(0.02)
    assert members.unusable == {"bare": "bare-host: No module named 'psutil'"}
    assert cluster.begun == ["bare"] * 3


def test_a_ping_shows_that_a_node_is_present(cluster: Cluster) -> None:
    with Membership([build_node("a")]).watching() as members:
        members.ask("a")
        time.sleep(0.02)
        assert not members.has_answered("a")
        cluster.pings["a"] = True
        eventually(lambda: members.has_answered("a"))
        cluster.pings.clear()
        members.ask("a")
        assert not members.has_answered("a")
        cluster.ids.clear()
        eventually(lambda: not members._pings)


def test_a_head_that_does_not_answer_is_silent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = mock.Mock(side_effect=connection.ClusterError("no answer"))
    monkeypatch.setattr(membership, "alive_nodes", lost)
    with Membership([build_node("a")]).watching() as members:
        before_s = members.silent_s
        eventually(lambda: lost.call_count > 1)
        assert members.silent_s > before_s
        assert ids(members) == ["a"]


def test_a_request_for_nodes_ends_with_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    request = mock.Mock(side_effect=[None, RuntimeError("the head is gone")])
    monkeypatch.setattr("ray.autoscaler._private.commands.request_resources", request)
    with requested_nodes([]):
        assert request.call_count == 0, "nothing is asked for where there is nothing to ask for"
    with requested_nodes([({"CPU": 1.0, "GPU": 1.0}, {"market-type": "spot"})]):
        assert request.call_args.args[1:] == ([{"CPU": 1.0, "GPU": 1.0}], [{"market-type": "spot"}])
    eventually(lambda: request.call_count == 2)
    assert request.call_args.args[1] == []
