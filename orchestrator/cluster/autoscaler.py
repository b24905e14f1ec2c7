"""Asking the cluster's autoscaler, where it has one, for nodes; and for no more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Request: TypeAlias = tuple[Mapping[str, float], Mapping[str, str]]
"""What an autoscaler is asked for: a node with these resources, and with these labels."""

_PATIENCE_S = 10.0


@contextlib.contextmanager
def asked_for(requests: Sequence[Request]) -> Iterator[None]:
    """Have an autoscaler, if the cluster has one, start nodes while the block runs.

    Version 2 of Ray's autoscaler reads the labels (`RAY_enable_autoscaler_v2=1` at the head where
    it is not the usual one); version 1 starts whatever has the resources.

    Args:
        requests: for each node the resources and the labels that it must have.
    """
    if not requests:
        yield
        return
    ask_for(requests)
    try:
        yield
    finally:  # a request stays until the next one: it would keep idle nodes alive for ever
        with contextlib.suppress(Exception):
            ask_for([])


def ask_for(requests: Sequence[Request]) -> None:
    """Ask an autoscaler for these nodes (see `asked_for`), and for no others any more."""
    from ray.autoscaler.sdk import request_resources  # noqa: PLC0415

    if not requests:
        request_resources(bundles=[])
        return
    bundles, labels = zip(*requests, strict=True)
    request_resources(
        bundles=[dict(each) for each in bundles],
        bundle_label_selectors=[dict(each) for each in labels],
    )


def ask_for_no_more() -> None:
    """Take back what an autoscaler was asked for; a head that is gone is not waited for."""

    def take_back() -> None:
        with contextlib.suppress(Exception):
            ask_for([])

    asking = threading.Thread(target=take_back, daemon=True, name="autoscaler-request")
    asking.start()
    asking.join(_PATIENCE_S)
