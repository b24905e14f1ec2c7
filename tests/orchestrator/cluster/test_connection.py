"""A Ray cluster and its nodes, with a double of Ray at its boundary."""

import contextlib
import dataclasses
import json
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import hardware
from orchestrator.cluster import connection
from orchestrator.hardware import Node, NodeProfile, classify
from orchestrator.hardware.gpu_readers.nvml import NvmlReader
from tests.building.hardware import build_gpu, build_node
from tests.commands import python

GPUS = tuple(build_gpu(index, "NVIDIA T4") for index in range(4))
PROFILE = build_node("host", cpus=8, gpus=GPUS, gpu_reader=NvmlReader.info).profile
LOST_GPU = dataclasses.replace(PROFILE, gpu_faults=("GPU 4 does not answer: GPU is lost",))


class RayError(Exception):
    """As `ray.exceptions` has it, and as a base of the error of a lost actor."""


class TooSlow(RayError):
    """As `ray.exceptions.GetTimeoutError`."""


class Ray:
    exceptions = SimpleNamespace(
        RayError=RayError, ActorDiedError=RayError, GetTimeoutError=TooSlow
    )
    job_config = SimpleNamespace(JobConfig=SimpleNamespace)
    at_init: BaseException | None = None
    at_task: Exception | None = None
    is_in_use = is_shut_down = False

    def __init__(self, *resources: dict[str, float]) -> None:
        self._nodes = [
            {
                "NodeID": id_,
                "NodeManagerHostname": id_,
                "Alive": True,
                "Resources": amounts,
                "Labels": {"ray.io/node-id": id_},
            }
            for id_, amounts in ((f"node-{n}", amounts) for n, amounts in enumerate(resources))
        ]

    def init(self, **options: Any) -> None:
        self.started, self.environ = options, dict(os.environ)
        folder = Path((options.get("runtime_env") or {}).get("working_dir", "."))
        self.files = sorted(path.name for path in folder.iterdir())
        os.environ["PYTHONBREAKPOINT"] = "ray.util.rpdb.set_trace"  # as Ray itself does
        os.environ.pop("RAY_CHDIR_TO_TRIAL_DIR", None)
        if self.at_init is not None:
            raise self.at_init

    def shutdown(self) -> None:
        self.is_shut_down = True

    def is_initialized(self) -> bool:
        return self.is_in_use

    def nodes(self) -> list[dict[str, Any]]:
        if self.at_task is not None:
            raise self.at_task
        return self._nodes

    def remote(self, function: Callable[..., Any]) -> SimpleNamespace:
        actor = SimpleNamespace(here=SimpleNamespace(remote=lambda: True))
        call = (lambda: actor) if isinstance(function, type) else function
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=call))

    def get(self, value: Any, timeout: float) -> Any:
        return value


Use = Callable[[Ray], Ray]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    def install(ray: Ray) -> Ray:
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    def probe(*, every_gpu: bool = False) -> NodeProfile:
        gpus = GPUS if every_gpu else GPUS[2:]
        return dataclasses.replace(PROFILE, gpus=gpus)

    monkeypatch.setattr(hardware, "probe", probe)
    monkeypatch.setattr(connection, "token_settings", lambda: {})
    monkeypatch.setattr(connection, "hidden_cloud_secrets", contextlib.nullcontext)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    return install


def nodes_at(address: str | None) -> tuple[Node, ...]:
    with connection.connect(address) as nodes:
        return nodes


def refusal(address: str | None = "auto") -> str:
    with pytest.raises(connection.ClusterError) as refused:
        nodes_at(address)
    return str(refused.value)


def test_ray_decides_which_nodes_take_part_with_how_many_gpus(use: Use) -> None:
    use(Ray({"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}, {"memory": 1.0}, {"CPU": 0.5}))
    nodes = nodes_at("auto")
    assert [node.gpus for node in nodes] == [2, 0]
    cpu, gpu = classify(nodes)
    assert [[node.id for node in group.nodes] for group in (cpu, gpu)] == [["node-1"], ["node-0"]]
    use(Ray({"memory": 1.0}))
    assert refusal().startswith("no node of the Ray cluster has a CPU")


def test_a_token_that_everyone_can_read_is_narrowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    assert connection.token_settings() == {}
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("secret", "ascii")
    token.chmod(0o644)
    assert connection.token_settings() == {"RAY_AUTH_MODE": "token"}
    assert token.stat().st_mode & 0o777 == 0o600


def test_a_process_that_uses_ray_already_keeps_its_connection(use: Use) -> None:
    ray = use(Ray({"CPU": 8.0}))
    ray.is_in_use = True
    assert "ray.shutdown()" in refusal(None)
    assert not ray.is_shut_down


LOCAL_RAY = """
import os
import signal
from pathlib import Path
import ray
from ray._raylet import AuthenticationMode, AuthenticationTokenLoader, get_authentication_mode
from orchestrator.cluster import connection
before = get_authentication_mode(), dict(os.environ)
came = []
signal.signal(signal.SIGTERM, lambda *_: came.append(1))
with connection.connect(None):
    os.kill(os.getpid(), signal.SIGTERM)
    assert came and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)  # no abort in 3 s
    folder = Path(ray._private.worker._global_node.get_session_dir_path()).parents[1]
    assert folder.name.startswith("rnn-ray-") and folder.stat().st_mode & 0o777 == 0o700
    assert get_authentication_mode() == AuthenticationMode.TOKEN
    from ray.tune.execution.class_cache import ENV_VARS_TO_PROPAGATE
    assert not [name for name in ENV_VARS_TO_PROPAGATE if "AWS" in name]
assert not folder.exists()
with connection.connect(None):  # with another token
    ray.get(ray.remote(lambda: 1).remote())
assert (get_authentication_mode(), dict(os.environ)) == before
assert not AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
assert "AWS_SECRET_ACCESS_KEY" in ENV_VARS_TO_PROPAGATE
"""


def test_a_local_ray_belongs_to_its_user_and_leaves_no_trace(tmp_path: Path) -> None:
    is_rays = re.compile("(RAY|TUNE)_")
    environ = {name: value for name, value in os.environ.items() if not is_rays.match(name)}
    python("-c", LOCAL_RAY, environ={**environ, "HOME": str(tmp_path)}).expect()
    assert not (tmp_path / ".ray").exists()


def test_a_lost_gpu_is_hidden_from_ray(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = use(Ray({"CPU": 8.0, "GPU": 4.0}))
    monkeypatch.setattr(hardware, "probe", lambda **_: LOST_GPU)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
    (node,) = nodes_at(None)
    assert (ray.started["num_gpus"], node.gpus) == (4, 4)
    assert ray.environ["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1,GPU-2,GPU-3"
    ray.at_init = OSError("GPU is lost")  # its own NVML's error is of no class that it documents
    text = refusal(None)
    assert "does not answer" in text and "CUDA_VISIBLE_DEVICES=-1" in text


def test_a_token_for_a_cluster_without_tokens_is_refused(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "begin_probe", lambda _: PROFILE)

    class Tokenless(Ray):
        def get(self, value: Any, timeout: float) -> Any:
            if value is True:  # the answer of an actor
                raise RayError("all references to the actor were removed")
            return value

    use(Tokenless({"CPU": 1.0}))
    nodes_at("auto")  # shows no token
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert "set RAY_AUTH_MODE=disabled for this command" in refusal()
    use(Ray({"CPU": 1.0}))
    nodes_at("auto")


def test_our_code_goes_to_a_head_whose_name_is_resolved(use: Use) -> None:
    """Ray, given a name, waits for ever (2.60)."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        ray = use(Ray({"CPU": 1.0}))
        nodes_at(f"localhost:{port}")
    assert ray.started["address"] == f"127.0.0.1:{port}"
    assert ray.files == ["orchestrator", "rnnsweep", "workloads"]
    assert not Path(ray.started["runtime_env"]["working_dir"]).exists()  # Ray has taken it by then
    assert refusal(f"localhost:{port}").startswith(f"no Ray cluster answers at localhost:{port}")


def test_an_address_that_is_no_heads_is_refused() -> None:
    for address in ("http://10.0.0.5:8265", "10.0.0.5", ":6379", "10.0.0.5:70000"):
        text = refusal(address)
        assert "expected HOST:PORT" in text
        assert f"received {address!r}" in text
        assert ("dashboard" in text) == ("://" in address)


def test_within_a_job_everything_has_come_already(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}, "metadata": {}}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(job))
    ray = use(Ray({"CPU": 1.0}))
    nodes_at("auto")
    assert ray.started["runtime_env"] is None


def test_a_cluster_that_cannot_run_the_code_is_explained(use: Use) -> None:
    ray = use(Ray())
    ray.at_init = RuntimeError("Version mismatch: The cluster has:\n    Python: 3.12.4\n")
    error = refusal()
    assert "different versions" in error and "Python: 3.12.4" in error
    ray.at_init = None
    trace = "ray::probe()\n  Traceback\nModuleNotFoundError: No module named 'pynvml'"
    ray.at_task = RayError(trace)
    error = refusal()
    assert "No module named 'pynvml'" in error and "Traceback" not in error
    assert "requirements.lock" in error
    ray.at_task = RayError("")
    assert "cannot run rnnsweep: RayError" in refusal()


def test_a_node_that_leaves_during_its_probe_is_left_out(use: Use) -> None:
    class Leaving(Ray):
        def get(self, value: Any, timeout: float) -> Any:
            self._nodes[0]["Alive"] = is_alive
            raise RayError("the node died")

    for is_alive in (True, False):
        use(Leaving({"CPU": 1.0}))
        words = "cannot run" if is_alive else "nodes alive: 0"
        assert words in refusal()


def test_a_node_whose_workers_do_not_start_is_named(use: Use) -> None:
    class Silent(Ray):
        def get(self, value: Any, timeout: float) -> Any:
            assert 0 < timeout <= 300
            raise TooSlow

    use(Silent({"CPU": 1.0}))
    with pytest.raises(connection.NoAnswer, match="node-0: no Ray worker answered"):
        nodes_at("auto")


def test_a_node_whose_actors_do_not_start_is_named(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Ray):
        def get(self, value: Any, timeout: float) -> Any:
            assert 0 < timeout <= 300
            if value is True:  # the answer of an actor
                raise TooSlow
            return value

    use(Silent({"CPU": 1.0}))
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(connection.NoAnswer, match="no Ray worker answered"):
        nodes_at("auto")


def test_a_ray_that_does_not_start_here_may_start_later(use: Use) -> None:
    ray = use(Ray({"CPU": 8.0}))
    ray.at_init = Exception("The current node timed out during startup.")
    with pytest.raises(connection.NoAnswer, match="Ray did not start on this machine"):
        nodes_at(None)
    assert ray.is_shut_down


def test_a_limit_of_address_space_with_which_ray_aborts_is_refused(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(Ray({"CPU": 8.0}))
    limits = [2 * 2**30, -1]
    monkeypatch.setattr("resource.getrlimit", lambda _: (limits.pop(0), -1))
    assert "2,048 MiB (ulimit -v)" in refusal(None)
    nodes_at(None)
