"""Connections to Ray's job server, at its HTTP boundary."""

from __future__ import annotations

import os

import pytest

from orchestrator.cluster.jobs import Cluster
from tests.orchestrator.cluster.fake_job_server import serving


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"])
def test_the_given_address_counts_and_the_environment_is_restored(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    before = dict(os.environ)
    with serving() as server:
        server.add("mine")
        assert [start.sweep for start in Cluster(server.address).starts()] == ["mine"]
    assert dict(os.environ) == before
