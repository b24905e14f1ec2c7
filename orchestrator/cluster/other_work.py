"""What other processes take of the machines that are to run trials, before the first one begins."""

import math
from collections.abc import Mapping, Sequence

from orchestrator.cluster.connection import run_on_nodes
from orchestrator.hardware import Node, OtherWork, observe_other_work

_ANSWER_S = 15.0
"""A node that has not answered by then is left out: what is said of it is advice only."""

_MOST_NODES = 3


def observe_nodes(nodes: Sequence[Node]) -> dict[str, OtherWork]:
    """Look at these nodes of the connected cluster at once; return what is seen by host name."""
    seen = run_on_nodes(observe_other_work, nodes, timeout_s=_ANSWER_S)
    return {node.profile.hostname: work for node, work in seen if work is not None}


def describe_busy(seen: Mapping[str, OtherWork], limit_pct: float) -> str | None:
    """Return what others take of the busy machines; None if none of them is busy.

    Of several machines the busiest are named.
    """
    busy = {host: work for host, work in seen.items() if work.is_busy(limit_pct)}
    if not busy:
        return None
    if len(seen) == 1:
        (work,) = busy.values()
        return str(work)
    order = sorted(busy, key=lambda host: -busy[host].others_pct)
    named = [f"on {host} {busy[host]}" for host in order[:_MOST_NODES]]
    more = len(order) - len(named)
    return "; ".join([*named, *([f"and {more} other nodes are busy"] if more else [])])


def warn_of(busy: str, effect: float, arms: Sequence[str]) -> str:
    """Return the sentences on busy machines that are told before trials begin.

    `effect` is the largest ratio of times that the other work alone can cause, and `arms` the names
    of the two whose times these are.
    """
    if effect == math.inf:
        cause = ", and what so much does to times was not measured: they may stay inconclusive"
    elif effect > 1:
        size = f"{float(f'{effect:.2g}'):g}"
        cause = (
            f", which alone can make times of {' and '.join(arms)} differ by {size} ×; less than "
            "that is inconclusive"
        )
    else:
        cause = ": times are provisional at best"
    return f"{busy[:1].upper()}{busy[1:]}{cause}. Accuracies are not affected"
