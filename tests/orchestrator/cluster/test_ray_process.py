"""Processes that use Ray before and after a look at a cluster, such as a notebook's."""

import os
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.cluster import ray_process
from orchestrator.core.stop_signal import Stopped
from tests.commands import python, wait_for
from tests.orchestrator.cluster.fake_job_server import TOKEN, serving

LOOK_AT_A_CLUSTER = """
import os, sys
from pathlib import Path
from ray._raylet import AuthenticationTokenLoader, get_authentication_mode
from orchestrator.cluster.jobs import Cluster

before = get_authentication_mode(), dict(os.environ)
cluster = Cluster(sys.argv[1])
Path.home().joinpath(".ray", "auth_token").unlink()
assert (get_authentication_mode(), dict(os.environ)) == before
assert not AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
assert cluster.starts() == []  # it keeps the token that it was made with
"""


def test_a_look_at_a_cluster_leaves_rays_authentication_as_it_was(tmp_path: Path) -> None:
    token_file = tmp_path / ".ray" / "auth_token"
    token_file.parent.mkdir()
    token_file.write_text(TOKEN, "ascii")
    with serving() as server:
        server.token = TOKEN
        environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        python("-c", LOOK_AT_A_CLUSTER, server.address, environ=environ).expect()


def test_a_ray_that_never_starts_is_waited_for_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, stops = threading.Event(), mock.Mock(side_effect=[None, Stopped])
    monkeypatch.setitem(sys.modules, "ray", mock.Mock(init=lambda: is_over.wait(60)))
    monkeypatch.setattr(ray_process, "_LEAVE_S", 0.1)
    try:
        hanging = ray_process.RayThread(stops)
        with pytest.raises(Stopped):
            hanging.start()
        hanging.end(is_own_cluster=True)
        monkeypatch.setattr(ray_process, "_START_S", 0.2)
        hanging = ray_process.RayThread(lambda: None)
        with pytest.raises(TimeoutError, match="has not answered"):
            hanging.start()
        hanging.end(is_own_cluster=True)
        assert ray_process.has_waiting_threads()
    finally:
        is_over.set()
    wait_for(lambda: not ray_process.has_waiting_threads())


def test_the_thread_that_started_ray_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel ends Ray's processes when the thread that started them ends."""
    threads: list[threading.Thread] = []

    def note(**_: object) -> None:
        threads.append(threading.current_thread())

    monkeypatch.setitem(sys.modules, "ray", mock.Mock(init=note, shutdown=note))
    ray = ray_process.RayThread(lambda: None)
    ray.start(address="local")
    assert threads[0].is_alive() and threads[0] is not threading.current_thread()
    ray.end(is_own_cluster=True)
    assert threads[1] is threads[0] and not threads[0].is_alive()
