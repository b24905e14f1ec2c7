"""A Ray cluster of different nodes on this machine: they may use different numbers of CPUs.

Each node's processes are confined to some of the machine's CPUs, so that its probe detects another
hardware class: one CPU is the fast class, two CPUs are the slow one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from orchestrator.cluster.connection import token_settings
from orchestrator.execution.cpu_claims import confined

FAST_CPUS, SLOW_CPUS = 1, 2
_STORE_BYTES = 80 * 2**20


@contextlib.contextmanager
def unlike_nodes(fast: int, slow: int) -> Iterator[str]:
    """Start a head without CPUs and nodes of both classes; yield the cluster's address.

    Raises:
        SystemExit: this machine has too few CPUs for two classes.
    """
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < SLOW_CPUS:
        raise SystemExit(f"needs a machine with {SLOW_CPUS} CPUs; this process has {len(usable)}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.update(token_settings())  # as a sweep does; other clusters end its actors
    from ray.cluster_utils import Cluster  # noqa: PLC0415  (after the environment is set)

    folder = tempfile.mkdtemp(prefix="unlike-")  # otherwise it becomes the machine's `auto` cluster
    cluster = Cluster(initialize_head=True, head_node_args={**_node(cpus=0), "temp_dir": folder})
    try:
        for number in range(fast + slow):
            cpus = FAST_CPUS if number < fast else SLOW_CPUS
            with confined(usable[:cpus]):
                cluster.add_node(**_node(cpus=1), wait=False)
        cluster.wait_for_nodes()
        yield str(cluster.address)
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _node(*, cpus: int) -> dict[str, Any]:
    return {
        "num_cpus": cpus,
        "num_gpus": 0,
        "object_store_memory": _STORE_BYTES,
        "include_dashboard": False,
    }
