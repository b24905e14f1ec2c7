"""The head of a cluster dies during a sweep: exit code 3, and the next start resumes."""

from __future__ import annotations

import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.integration.sweeping import Home, wait_for
from tests.integration.test_stopping import wait_until_it_waits

NAME = "headless"
RAY = Path(sys.executable).with_name("ray")


def test_a_lost_head_stops_the_sweep_and_the_next_start_finishes_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = home.spec(NAME, arms={"implementations": ["python/a", "python/waits"]})
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with (
        cluster() as (address, head),
        home.running("run", spec, "--address", address) as command,
    ):
        wait_until_it_waits(home, command)
        kill_whole(head, "gcs_server")
        done = command.wait(90).expect(3)
    assert "the head of the Ray cluster has not answered for 25 seconds" in done.err
    assert f"Resume with: rnnsweep run {spec} --address {address}" in done.err
    ended = home.finished(NAME)
    home.gate.touch()
    with cluster() as (address, _):
        done = home.run("run", spec, "--address", address).expect(0)
    assert "4 complete of 4 expected" in done.out
    home.expect_exactly_once(NAME, 4)
    assert home.finished(NAME)[: len(ended)] == ended


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """Start a separate cluster of one node; yield its address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="head-"))  # a short path, for sockets
    options = [
        "--block", "--head", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=1",
        "--include-dashboard=false", "--disable-usage-stats",
        f"--temp-dir={folder}",
    ]  # fmt: skip
    log = (folder / f"ray-{port}.log").open("w")
    process = subprocess.Popen(
        [RAY, "start", *options],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        wait_for(lambda: listens(port) or process.poll() is not None, 60)
        assert process.poll() is None, Path(log.name).read_text()
        yield f"127.0.0.1:{port}", process.pid
    finally:
        kill_whole(process.pid)
        process.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def listens(port: int) -> bool:
    """Return True if something listens on the port."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def kill_whole(pid: int, name: str = "") -> None:
    """Kill a process and its descendants, optionally only those of this name."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            if name in member.name():
                member.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
