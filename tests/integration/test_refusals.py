"""User errors: exit code 2, a message that names the place, and no traceback."""

from __future__ import annotations

import os
import time
from pathlib import Path

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
def test_paths_that_cannot_be_a_home(home: Home, tmp_path: Path) -> None:
    spec = home.spec("homeless")
    a_file = tmp_path / "a_file"
    a_file.write_text("not a folder")
    home.run("run", spec, RNNSWEEP_HOME=str(a_file)).refused(str(a_file), "RNNSWEEP_HOME")
    home.run("status", RNNSWEEP_HOME=str(a_file)).refused(str(a_file), "RNNSWEEP_HOME")
    nowhere = "/proc/none"
    home.run("run", spec, RNNSWEEP_HOME=nowhere).refused(nowhere, "RNNSWEEP_HOME")
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    if not os.access(shut, os.W_OK):  # root may write everywhere
        home.run("run", spec, RNNSWEEP_HOME=str(shut / "x")).refused(str(shut), "RNNSWEEP_HOME")


def test_a_sweep_that_the_store_does_not_have(home: Home) -> None:
    home.run("report", "none").refused("no sweep 'none'")
    assert "no sweeps" in home.run("status").expect(0).out


@pytest.mark.full
def test_a_cluster_that_does_not_answer(home: Home) -> None:
    began_s = time.monotonic()
    home.run("hardware", "--address", "nonsense").refused("nonsense")
    home.run("hardware", "--address", "127.0.0.1:1", timeout_s=100).refused("127.0.0.1:1")
    assert time.monotonic() - began_s < 100
