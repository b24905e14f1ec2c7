"""The nodes of a Ray cluster, polled in a thread (a lost head may block), and requests for more."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias

from orchestrator.cluster.connection import alive_nodes, as_node, begin_probe, given_cpus, pinned
from orchestrator.core.errors import last_line
from orchestrator.hardware import Node

NodeRequest: TypeAlias = tuple[Mapping[str, float], Mapping[str, str]]
"""A request for a node with these resources and these labels."""

_EVERY_S = 1.0
_WITHDRAW_S = 10.0

_PROBES = 3
"""The number of failed probes after which a new node is not used."""


class Membership:
    """The cluster's nodes with their profiles: `nodes`, and new ones after a probe."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._probes: dict[str, tuple[Mapping[str, Any], Any]] = {}
        self._failed: Counter[str] = Counter()
        self._unusable: dict[str, str] = {}
        self._pings: dict[str, Any] = {}
        self._wanted: set[str] = set()
        self._answered: set[str] = set()
        self._heard_s = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[Self]:
        """Poll the cluster until the block ends."""
        thread = threading.Thread(target=self._poll, daemon=True, name="cluster-membership")
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The present nodes, as of the last answer."""
        with self._lock:
            return tuple(self._nodes.values())

    @property
    def unusable(self) -> dict[str, str]:
        """New nodes that could not be probed, by id: `HOST: reason`."""
        with self._lock:
            return dict(self._unusable)

    @property
    def silent_s(self) -> float:
        """Seconds since the cluster's head last answered."""
        with self._lock:
            return time.monotonic() - self._heard_s

    def ask(self, node_id: str) -> None:
        """Ping a node, which shows that it is present (see `has_answered`)."""
        with self._lock:
            self._answered.discard(node_id)
            self._wanted.add(node_id)

    def has_answered(self, node_id: str) -> bool:
        """Return whether the node has answered its last ping."""
        with self._lock:
            return node_id in self._answered

    def _poll(self) -> None:
        """Ask the cluster for its nodes each second, probe new ones, and answer pings."""
        while not self._ended.wait(_EVERY_S):
            with contextlib.suppress(Exception):  # after any error, poll again
                alive = {node["NodeID"]: node for node in alive_nodes()}
                with self._lock:
                    self._heard_s = time.monotonic()
                    self._nodes = {id_: node for id_, node in self._nodes.items() if id_ in alive}
                self._probe(alive)
                self._ping(alive)

    def _probe(self, alive: Mapping[str, Any]) -> None:
        """Start probes of new nodes, and add the nodes whose probes have ended."""
        for id_, ray_node in alive.items():
            is_new = id_ not in (*self._nodes, *self._probes, *self._unusable)
            if is_new and given_cpus(ray_node):
                self._probes[id_] = ray_node, begin_probe(ray_node)
        for id_, (ray_node, probe) in list(self._probes.items()):
            profile = _result(probe)
            if id_ not in alive:
                del self._probes[id_]
            elif isinstance(profile, Exception):
                del self._probes[id_]  # probed again, or given up
                self._failed[id_] += 1
                if self._failed[id_] >= _PROBES:
                    host = ray_node["NodeManagerHostname"]
                    with self._lock:
                        self._unusable[id_] = f"{host}: {last_line(profile)}"
            elif profile is not None:
                del self._probes[id_]
                with self._lock:
                    self._nodes[id_] = as_node(ray_node, profile)

    def _ping(self, alive: Mapping[str, Any]) -> None:
        """Start the pings that were asked for, and note which nodes have answered."""
        with self._lock:
            wanted, self._wanted = self._wanted, set()
        for id_ in wanted & alive.keys():
            self._pings[id_] = pinned(lambda: True, id_).remote()
        for id_, ping in list(self._pings.items()):
            if id_ not in alive:
                del self._pings[id_]
            elif _result(ping) is True:
                del self._pings[id_]
                with self._lock:
                    self._answered.add(id_)


def _result(reference: Any) -> Any:
    """Return the result of a task, the error that ended it, or None while it runs."""
    import ray  # noqa: PLC0415

    done, _ = ray.wait([reference], timeout=0)
    if not done:
        return None
    try:
        return ray.get(reference)
    except Exception as error:  # noqa: BLE001 - a node that cannot answer is not used
        return error


@contextlib.contextmanager
def requested_nodes(requests: Sequence[NodeRequest]) -> Iterator[None]:
    """Have the autoscaler start nodes while the block runs; nothing if there are no requests."""
    if requests:
        request_nodes(requests)
    try:
        yield
    finally:
        if requests:
            withdraw_request()


def request_nodes(requests: Sequence[NodeRequest]) -> None:
    """Replace the request to the cluster's autoscaler, if it has one, by these nodes."""
    # Its version 2 (`RAY_enable_autoscaler_v2=1` at the head) reads the labels, version 1 does not.
    from ray.autoscaler.sdk import request_resources  # noqa: PLC0415

    request_resources(
        bundles=[dict(bundle) for bundle, _ in requests],
        bundle_label_selectors=[dict(labels) for _, labels in requests] or None,
    )


def withdraw_request() -> None:
    """Withdraw the request, which would keep idle nodes alive; do not wait for a lost head."""

    def withdraw() -> None:
        with contextlib.suppress(Exception):
            request_nodes([])

    thread = threading.Thread(target=withdraw, daemon=True, name="autoscaler-request")
    thread.start()
    thread.join(_WITHDRAW_S)
