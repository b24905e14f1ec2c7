"""Requests for nodes to the cluster's autoscaler, if it has one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

NodeRequest: TypeAlias = tuple[Mapping[str, float], Mapping[str, str]]
"""A request for a node with these resources and these labels."""

_PATIENCE_S = 10.0


@contextlib.contextmanager
def requested_nodes(requests: Sequence[NodeRequest]) -> Iterator[None]:
    """Have the autoscaler start nodes while the block runs.

    Version 2 of Ray's autoscaler reads the labels (`RAY_enable_autoscaler_v2=1` at the head, unless
    it is the default). Version 1 starts any node with the resources.

    Args:
        requests: resources and labels of each node.
    """
    if not requests:
        yield
        return
    request_nodes(requests)
    try:
        yield
    finally:  # a request stays until the next one, and would keep idle nodes alive
        with contextlib.suppress(Exception):
            request_nodes([])


def request_nodes(requests: Sequence[NodeRequest]) -> None:
    """Replace the request to the autoscaler by these nodes (see `requested_nodes`)."""
    from ray.autoscaler.sdk import request_resources  # noqa: PLC0415

    request_resources(
        bundles=[dict(bundle) for bundle, _ in requests],
        bundle_label_selectors=[dict(labels) for _, labels in requests] or None,
    )


def withdraw_request() -> None:
    """Withdraw the request to the autoscaler, without waiting for a lost head."""

    def withdraw() -> None:
        with contextlib.suppress(Exception):
            request_nodes([])

    thread = threading.Thread(target=withdraw, daemon=True, name="autoscaler-request")
    thread.start()
    thread.join(_PATIENCE_S)
