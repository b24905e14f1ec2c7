"""What other processes take of the machines that are to run trials, before the first one begins."""

import time
from collections.abc import Callable, Mapping, Sequence

from orchestrator.cluster.connection import run_on_nodes
from orchestrator.core.caller import as_typed
from orchestrator.core.errors import Refusal
from orchestrator.core.text import duration
from orchestrator.hardware import Node, OtherProcesses, ProcessAddress, observe_other_processes

_ANSWER_S = 15.0
"""A node that has not answered by then is left out; the message is only advice."""

_QUIET_LOOKS = 2
"""The machine must be quiet at two looks in a row: a compiler pauses between files."""

_BETWEEN_LOOKS_S = 3.0
_MOST_NODES = 3


class StillBusy(Refusal):
    """The machine was not quiet in the time that the user allowed."""

    is_away = True  # the same command may succeed later


def observe_nodes(nodes: Sequence[Node]) -> dict[str, OtherProcesses]:
    """Look at these nodes of the connected cluster at once; return what is seen by host name."""
    driver = ProcessAddress.of_this_process()
    seen = run_on_nodes(lambda: observe_other_processes(driver), nodes, timeout_s=_ANSWER_S)
    return {node.profile.hostname: work for node, work in seen if work is not None}


def describe_busy(seen: Mapping[str, OtherProcesses], limit_pct: float) -> str | None:
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


def start_line(busy: str, *, waits: bool) -> str:
    """Return the line on busy machines before a start that waits for quiet ones, or goes ahead."""
    if waits:
        return f"busy: {busy}"
    wait = as_typed("--wait-quiet 30m", "wait_quiet_s=1800")
    return f"busy: {busy}; starting anyway (to wait: {wait})"


def wait_until_quiet(
    look: Callable[[], Mapping[str, OtherProcesses]],
    limit_pct: float,
    wait_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Wait until looks find all machines quiet; raise `StillBusy` if that takes over `wait_s`."""
    began_s, quiet = clock(), 0
    while True:
        text = describe_busy(look(), limit_pct)
        quiet = 0 if text else quiet + 1
        if quiet == _QUIET_LOOKS:
            return
        waited_s = clock() - began_s
        if waited_s >= wait_s and text:
            longer = as_typed("--wait-quiet 2h", "wait_quiet_s=7200")
            raise StillBusy(
                f"gave up after {duration(waited_s)}: {text}. Nothing was run. Allow more time "
                f"({longer}), or start without waiting"
            )
        sleep(_BETWEEN_LOOKS_S)
