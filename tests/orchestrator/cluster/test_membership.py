"""Probes of nodes that join a cluster, with doubles of Ray's tasks."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.cluster import membership
from orchestrator.cluster.membership import Membership
from tests.orchestrator.sample_plans import node

PROFILE = node("late").profile


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
    answers["late"] = PROFILE
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
