"""The Ray cluster that a sweep runs on: joined or started, asked what it is made of, left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator import hardware
from orchestrator.hardware import Node, NodeProfile
from orchestrator.stopping import Stopped

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # a signal is the sweep's to handle
    "TUNE_DISABLE_AUTO_CALLBACK_SYNCER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is what resume reads
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "86400",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
}
_OBJECT_STORE_BYTES = 128 * 2**20  # results are a few kilobytes; memory is the trainers'


class ClusterError(RuntimeError):
    """The cluster could not be reached or was lost; the message says what to do next."""


def this_machine() -> tuple[Node, ...]:
    """The machine as a cluster of one node, without starting Ray."""
    profile = hardware.probe()
    return (Node("", profile, profile.cpus),)


@contextlib.contextmanager
def connect(address: str | None) -> Iterator[tuple[Node, ...]]:
    """Join the cluster at `address`, or start one on this machine; its nodes, probed.

    Raises:
        ClusterError: no cluster answers there.
        Stopped: SIGTERM came while Ray started.
    """
    os.environ.update({key: os.environ.get(key, value) for key, value in _QUIET.items()})
    import ray  # noqa: PLC0415  (seconds that `plan` and `--help` do without)

    try:
        yield _join(address)
    finally:
        ray.shutdown()


def _join(address: str | None) -> tuple[Node, ...]:
    import ray  # noqa: PLC0415

    try:
        if address is None:
            profile = hardware.probe()
            _start(profile)
            (ray_node,) = (node for node in ray.nodes() if node["Alive"])
            return (Node(ray_node["NodeID"], profile, profile.cpus),)
        ray.init(address=address, log_to_driver=False)
        return _probe_all()
    except SystemExit as error:  # Ray takes SIGTERM for itself before it does anything else
        raise Stopped from error
    except (ConnectionError, TimeoutError) as error:
        where = address or "this machine"
        raise ClusterError(
            f"no Ray cluster answers at {where}: {error}. Is it running (ray status), and does "
            "this machine hold its authentication token?"
        ) from error


def _start(profile: NodeProfile) -> None:
    """Start Ray here. `address="local"`: never join a cluster that died badly on this machine."""
    import ray  # noqa: PLC0415

    ray.init(
        address="local",
        num_cpus=profile.cpus,
        num_gpus=len(profile.gpus),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="warning",
    )


def _probe_all() -> tuple[Node, ...]:
    """Probe every node by a task pinned to it."""
    import ray  # noqa: PLC0415

    alive = [node for node in ray.nodes() if node["Alive"]]
    probes = [
        ray.remote(hardware.probe)
        .options(num_cpus=0, label_selector={"ray.io/node-id": node["NodeID"]})
        .remote()
        for node in alive
    ]
    return tuple(
        Node(node["NodeID"], profile, int(node["Resources"].get("CPU", 0)))
        for node, profile in zip(alive, ray.get(probes), strict=True)
    )


def ray_log_folder() -> Path | None:
    """Where Ray's own logs of this session are, once it is started here."""
    import ray  # noqa: PLC0415

    node = ray._private.worker._global_node
    return Path(node.get_logs_dir_path()) if node else None
