"""The Ray cluster of a sweep: join or start it, probe its nodes, leave it."""

import contextlib
import json
import os
import resource
import secrets
import socket
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from orchestrator import hardware
from orchestrator.cluster import code_bundle, temporary_folders
from orchestrator.cluster.ray_process import (
    RayThread,
    hidden_cloud_secrets,
    reread_environment,
    restored_ray,
)
from orchestrator.core.caller import as_typed
from orchestrator.core.errors import Refusal, last_line, one_line
from orchestrator.core.version import ROOT
from orchestrator.hardware import Node, NodeProfile

T = TypeVar("T")

_RAY_SETTINGS = tomllib.loads(Path(__file__).with_name("ray_settings.toml").read_text())
_ANSWER_S, _WORKER_S = 5.0, 300.0  # of a head; and of a worker that has to start first
_POLL_S = 0.2
_LEAST_ADDRESS_SPACE = 3 * 2**30
_OBJECT_STORE_BYTES = 128 * 2**20  # results are a few kilobytes; memory is the trainers'


class ClusterError(Refusal, RuntimeError):
    """A cluster that cannot be reached or was lost; the message has the next step."""

    __module__ = "rnnsweep"


def this_machine() -> tuple[Node, ...]:
    """Return this machine as a cluster of one node, without starting Ray."""
    profile = hardware.probe()
    return (Node("", profile, profile.cpus),)


@contextlib.contextmanager
def connect(
    address: str | None,
    workload: str | None = None,
    *,
    may_be_empty: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Node, ...]]:
    """Join the cluster at `address`, or start one on this machine; yield its nodes, probed.

    The code bundle is copied to a cluster's nodes, with the code of a user's own `workload`. A
    cluster without a node for trials is refused, unless it `may_be_empty` at first. The process's
    environment, its signal handlers and what Ray keeps of them are restored at the end. Raise
    `ClusterError` if no cluster answers there, it cannot run the code, or this process is connected
    to one already; and `Refusal` if the user's own code cannot be bundled. `check` is called while
    Ray starts, and what it raises ends the wait.
    """
    with restored_ray():
        for name, value in _RAY_SETTINGS.items():
            os.environ.setdefault(name, value)
        if address is not None:
            address = _answering(address)
            os.environ.update(token_settings())  # Ray reads its configuration when imported
        else:  # nobody else on this machine may use it
            temporary_folders.remove_leftovers()
            os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        import ray  # noqa: PLC0415  (seconds that `plan` and `--help` do without)

        if ray.is_initialized():
            raise ClusterError(
                "this process is already connected to a Ray cluster, and Ray allows only one"
                " connection per process: call ray.shutdown() first, or use another process"
            )
        reread_environment()
        folder = contextlib.nullcontext() if address is not None else temporary_folders.ray_folder()
        with hidden_cloud_secrets(), folder as temporary:
            thread = RayThread(check)
            try:
                if temporary is not None:
                    yield _start_here(thread, temporary)
                else:
                    assert address is not None
                    yield _join(thread, address, workload, may_be_empty=may_be_empty)
            finally:
                thread.end(is_own_cluster=address is None)


def _join(
    thread: RayThread, address: str, workload: str | None, *, may_be_empty: bool
) -> tuple[Node, ...]:
    """Join the cluster; raise errors as `ClusterError`."""
    import ray  # noqa: PLC0415

    try:
        with tempfile.TemporaryDirectory(prefix="rnnsweep-code-") as folder:
            env = _runtime_env(Path(folder), workload)
            options = {"log_to_driver": False, "logging_level": "warning"}
            thread.start(address=address, runtime_env=env, **options)
        nodes = _probe_all(may_be_empty=may_be_empty)
        _expect_actors(nodes)
        return nodes
    except ClusterError:
        raise
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"a node of the Ray cluster cannot run rnnsweep: {last_line(error)}. Install its "
            "dependencies on every node, in the Python that runs Ray (pip install -r "
            "requirements.lock)"
        ) from error
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        if "ersion mismatch" in str(error):  # Ray's nodes exchange pickles
            raise ClusterError(
                f"this machine and the Ray cluster at {address} have different versions of Ray or "
                f"Python: {one_line(error, between='; ')}. Install the cluster's versions here, or "
                "use rnnsweep submit"
            ) from error
        raise _no_answer(address, error) from error


def _start_here(thread: RayThread, temporary: Path) -> tuple[Node, ...]:
    """Start Ray here, with its files in a folder; raise errors as `ClusterError`."""
    _expect_address_space()
    profile = hardware.probe()
    try:
        _start(thread, profile, temporary)
        (ray_node,) = alive_nodes()
    except ClusterError:
        raise
    except Exception as error:  # Ray raises an `Exception` if a part of it has ended meanwhile
        raise NoAnswer(
            f"Ray did not start on this machine: {last_line(error).rstrip('.')}. Check its free"
            " memory and disk space, and run the same command again"
        ) from error
    return (Node(ray_node["NodeID"], profile, profile.cpus, labels=_labels(ray_node)),)


def _expect_address_space() -> None:
    """Refuse a limit of address space with which Ray aborts, or waits for ever."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LEAST_ADDRESS_SPACE:
        raise ClusterError(
            f"Ray needs {_LEAST_ADDRESS_SPACE // 2**20:,} MiB of address space, and the limit here"
            f" is {limit // 2**20:,} MiB (ulimit -v). Raise it; to limit the memory of trials, set"
            " limits.memory_mib in the spec"
        )


def _start(thread: RayThread, profile: NodeProfile, temporary: Path) -> None:
    """Start Ray here, never joining a cluster that crashed on this machine (`address="local"`)."""
    import ray  # noqa: PLC0415

    job = ray.job_config.JobConfig()
    job._client_job = True  # else Ray puts the current folder first in each worker's path
    job._py_driver_sys_path = [str(ROOT)]
    if profile.gpu_faults and profile.gpus:  # else Ray would hand out lost GPUs, too
        working = [gpu.uuid for gpu in profile.gpus]
        os.environ.update(hardware.only_visible_environment(profile, working))
    try:
        thread.start(
            address="local",
            job_config=job,
            num_cpus=profile.cpus,
            num_gpus=len(profile.gpus),
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="warning",
            _temp_dir=str(temporary),
        )
    except Exception as error:
        if not profile.gpu_faults:
            raise
        variables = hardware.only_visible_environment(profile, ())
        hidden = " ".join(f"{name}={value}" for name, value in variables.items())
        raise ClusterError(
            f"Ray does not start here ({error}), probably because {profile.gpu_faults[0]}: reset"
            f" that GPU ({profile.gpu_terms.how_to_reset}), or use only the CPU with {hidden}"
        ) from error


def _answering(address: str) -> str:
    """Return the address of a head that answers, with a numeric host: Ray hangs on a name."""
    # If nobody listens there, fail within seconds; Ray itself would try for ten minutes.
    if address == "auto":
        return address
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65_535:
        others = "submit, status, logs, stop, report and doctor take a dashboard's address"
        hint = f" ({others})" if "://" in address else ""
        raise ClusterError(
            f"{as_typed('--address', 'address')}: expected HOST:PORT of a Ray head (such as "
            f"10.0.0.5:6379) or auto; received {address!r}{hint}"
        )
    is_encrypted: bool | None = None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S) as connection:
            number = connection.getpeername()[0]
            connection.settimeout(1.0)
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")  # gRPC's
            with contextlib.suppress(TimeoutError):  # a busy head
                is_encrypted = not connection.recv(1)
    except (OSError, UnicodeError) as error:
        raise _no_answer(address, error) from error
    uses_tls = os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true")  # as Ray reads it
    if is_encrypted is (not uses_tls):
        raise ClusterError(
            f"the Ray cluster at {address} uses TLS: set RAY_USE_TLS=1 and the paths of your "
            "certificate (infra/tls/README.md)"
            if is_encrypted
            else f"the Ray cluster at {address} does not use TLS: unset RAY_USE_TLS"
        )
    return f"[{number}]:{port}" if ":" in number else f"{number}:{port}"


class NoAnswer(ClusterError):
    """A cluster that does not answer now."""

    is_away = True


def _no_answer(where: str, error: Exception) -> ClusterError:
    return NoAnswer(
        f"no Ray cluster answers at {where}: {str(error).rstrip('.')}. Is it running (ray "
        "status), and is its authentication token here (~/.ray/auth_token or RAY_AUTH_TOKEN)?"
    )


def _runtime_env(folder: Path, workload: str | None) -> dict[str, Any] | None:
    """Return what Ray copies to the nodes; None within a Ray job that has copied it already."""
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}")
    if "working_dir" in (job.get("runtime_env") or {}):
        return None
    code_bundle.pack(folder, workload)
    return {"working_dir": str(folder), "env_vars": code_bundle.environ(workload)}


def token_settings() -> dict[str, str]:
    """Return the variables with which Ray shows a cluster this machine's token, if there is one."""
    # Ray 2.60 uses a token by itself when it starts a cluster, and not when it joins one.
    token_file = Path.home() / ".ray" / "auth_token"
    if token_file.exists() and token_file.stat().st_mode & 0o077:
        token_file.chmod(0o600)  # Ray makes it readable for everyone on this machine
    if token_file.exists() or {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        return {"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token")}
    return {}


def _expect_actors(nodes: Sequence[Node]) -> None:
    """Refuse a cluster without token authentication if this process shows it a token."""
    # Its tasks run, but Ray takes its actors for abandoned and ends them at once.
    import ray  # noqa: PLC0415

    if not nodes or os.environ.get("RAY_AUTH_MODE") != "token":
        return

    class Present:
        def here(self) -> bool:
            return True

    actor = pinned(Present, nodes[0].id).remote()
    try:
        ray.get(actor.here.remote(), timeout=_WORKER_S)
    except ray.exceptions.GetTimeoutError as error:
        raise _no_worker(nodes[0].profile.hostname) from error
    except ray.exceptions.ActorDiedError as error:
        raise ClusterError(
            "the Ray cluster ended an actor before it started, probably because this machine sends"
            " a token (~/.ray/auth_token) and the cluster uses none: set RAY_AUTH_MODE=disabled for"
            " this command, or start the cluster with RAY_AUTH_MODE=token"
        ) from error


def _no_worker(host: str) -> NoAnswer:
    return NoAnswer(
        f"{host}: no Ray worker answered within {_WORKER_S:.0f} seconds. See Ray's logs there, or"
        " remove the node from the cluster (ray stop)"
    )


def _probe_all(*, may_be_empty: bool) -> tuple[Node, ...]:
    """Probe every node that has a CPU for trials; one that leaves meanwhile is left out."""
    import ray  # noqa: PLC0415

    probes = [(node, begin_probe(node)) for node in alive_nodes() if given_cpus(node)]
    profiled, until_s = [], time.monotonic() + _WORKER_S
    for node, probe in probes:
        try:
            profile = ray.get(probe, timeout=max(0.0, until_s - time.monotonic()))
            profiled.append(as_node(node, profile))
        except ray.exceptions.GetTimeoutError as error:
            raise _no_worker(node["NodeManagerHostname"]) from error
        except ray.exceptions.RayError:
            if any(alive_node["NodeID"] == node["NodeID"] for alive_node in alive_nodes()):
                raise
    if not profiled and not may_be_empty:
        raise ClusterError(
            "no node of the Ray cluster has a CPU for trials (nodes alive:"
            f" {len(alive_nodes())}). Start one: ray start --address HEAD:6379, without"
            " --num-cpus=0"
        )
    return tuple(profiled)


def alive_nodes() -> list[Mapping[str, Any]]:
    """Return the nodes of `ray.nodes()` that are alive."""
    import ray  # noqa: PLC0415

    return [node for node in ray.nodes() if node["Alive"]]


def begin_probe(ray_node: Mapping[str, Any]) -> Any:
    """Start a probe of one of `ray.nodes()`, and return Ray's reference to its profile."""
    return pinned(hardware.probe, ray_node["NodeID"]).remote(every_gpu=True)


def pinned(function: Callable[..., Any], node_id: str) -> Any:
    """Return a Ray task that runs on that node only, whatever else runs there."""
    import ray  # noqa: PLC0415

    selector = {"ray.io/node-id": node_id}
    return ray.remote(function).options(num_cpus=0, label_selector=selector)


def run_on_nodes(
    function: Callable[[], T], nodes: Sequence[Node], *, timeout_s: float
) -> list[tuple[Node, T]]:
    """Return the results of a function on these nodes, without those that do not answer in time."""
    import ray  # noqa: PLC0415

    answers = {pinned(function, node.id).remote(): node for node in nodes}
    ready, _ = ray.wait([*answers], num_returns=len(answers), timeout=timeout_s)
    results = []
    for answer in ready:
        with contextlib.suppress(ray.exceptions.RayError):  # the node has left
            results.append((answers[answer], ray.get(answer)))
    return results


def answers_of_nodes(
    function: Callable[[Any], Any],
    asked: Sequence[tuple[str, Any]],
    check: Callable[[], None],
    *,
    until_s: float,
) -> Iterator[Any]:
    """Call a function on nodes at once, each with its argument; yield the answers as they come.

    `asked` has the id of each node and its argument. `check` is called while they work, and may
    raise. A node that leaves meanwhile, or has not answered at `until_s` (`time.monotonic`), has no
    answer.
    """
    import ray  # noqa: PLC0415

    pending = [pinned(function, node_id).remote(argument) for node_id, argument in asked]
    while pending and time.monotonic() < until_s:
        check()
        done, pending = ray.wait(pending, timeout=_POLL_S)
        for reference in done:
            with contextlib.suppress(ray.exceptions.RayError):
                yield ray.get(reference)


def as_node(ray_node: Mapping[str, Any], profile: NodeProfile) -> Node:
    """Return a node from Ray's facts and its own profile."""
    gpus = int(ray_node["Resources"].get("GPU", 0))
    return Node(ray_node["NodeID"], profile, given_cpus(ray_node), gpus, _labels(ray_node))


class NodeAddress(NamedTuple):
    """Where Ray reaches an alive node, whether trials can run there or not."""

    id: str
    host: str
    address: str


def node_addresses() -> list[NodeAddress]:
    """Return the addresses of all nodes, also of a head that has no CPU for trials."""
    return [
        NodeAddress(node["NodeID"], node["NodeManagerHostname"], node["NodeManagerAddress"])
        for node in alive_nodes()
    ]


def given_cpus(ray_node: Mapping[str, Any]) -> int:
    """Return how many CPUs a node has for trials: a head is often started with none."""
    return int(ray_node["Resources"].get("CPU", 0))


def _labels(node: Mapping[str, Any]) -> dict[str, str]:
    """Return Ray's labels of a node, including those that a user gave it."""
    return {str(name): str(value) for name, value in (node.get("Labels") or {}).items()}
