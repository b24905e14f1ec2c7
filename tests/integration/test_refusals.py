"""User errors: exit code 2, a message that names the place, and no traceback."""

from __future__ import annotations

import time

import pytest

from tests.integration.sweeping import Home


def test_arms_that_cannot_run(home: Home) -> None:
    arms = {"implementations": ["python/a"], "hardware": ["NVIDIA Imaginary"]}
    home.run("run", home.spec("nowhere", arms=arms)).refused("no arm can run here", "Imaginary")


def test_stores_that_do_not_work(home: Home) -> None:
    spec = home.spec("unrecorded")
    unreachable = "http://127.0.0.1:9"
    home.run("run", spec, MLFLOW_TRACKING_URI=unreachable).refused(
        unreachable, "MLFLOW_TRACKING_URI"
    )
    assert home.finished("unrecorded") == []

    home.database.write_bytes(b"this is no database at all\n" * 100)
    home.run("report", "unrecorded").refused("mlflow.db", "not a database")
    assert home.database.read_bytes().startswith(b"this is no database")


@pytest.mark.full
def test_a_cluster_that_does_not_answer(home: Home) -> None:
    began_s = time.monotonic()
    home.run("hardware", "--address", "nonsense").refused("nonsense")
    home.run("hardware", "--address", "127.0.0.1:1", timeout_s=100).refused("127.0.0.1:1")
    assert time.monotonic() - began_s < 100
