"""Sweeps that were submitted to a cluster: found by name, followed, and how they ended."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.cli import exit_codes
from orchestrator.cli.messages import show, show_progress
from orchestrator.core.errors import Refusal, printable

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Submitted

_MEANINGS = {
    exit_codes.COMPLETE: "complete",
    exit_codes.WITH_FAILURES: "complete, with failed trials",
    exit_codes.REFUSED: "refused, nothing was run",
    exit_codes.EXIT_STOPPED: "stopped, can be resumed",
    exit_codes.INTERNAL_ERROR: "ended by an internal error",
}
"""The exit codes of a sweep; with any other one, something else ended its process."""


def expect_start(cluster: Cluster, sweep: str) -> Submitted:
    """Return the latest start of a sweep; refuse the name of a sweep that was not submitted."""
    latest = cluster.latest(sweep)
    if latest is not None:
        return latest
    names = ", ".join(sorted({start.sweep for start in cluster.starts()})) or "none"
    raise Refusal(f"no sweep {sweep!r} was submitted to {cluster.address} (submitted: {names})")


def fetch_output(address: str, command: str, sweep: str | None, words: Sequence[str]) -> bytes:
    """Return what a reading command writes on the head of a cluster, where its store is reached.

    The command is one with `-o`, such as `report`. Without `sweep`, a name or a label, it reads the
    one that was submitted last.
    """
    from orchestrator.cluster.jobs import Cluster  # noqa: PLC0415  (Ray: seconds)

    cluster = Cluster(address)
    starts = sorted(cluster.starts(), key=lambda start: start.started_s or 0.0)
    name = sweep or (starts[-1].sweep if starts else "")
    start = expect_start(cluster, name.partition("#")[0])
    entry = ["python", "-m", "orchestrator", command, name, *words, "-o", f"{command}.out"]
    content = cluster.fetch(shlex.join(entry), f"{command}.out", command, like=start.id)
    return content.encode()


def follow_start(cluster: Cluster, start: Submitted, resume: str | None) -> int:
    """Print the log of a start until it ends; return its exit code.

    `resume` is the command that continues the sweep, printed if the start was killed.
    """
    from orchestrator.cluster.jobs import OutOfReach  # noqa: PLC0415  (Ray: seconds)

    commands = next_commands(start.sweep, cluster.address)
    try:
        with exit_codes.interrupted_by(signal.SIGTERM):
            end = cluster.follow(start.id, lambda text: show(printable(text)), show_progress)
    except KeyboardInterrupt:
        show(f"\n{start.sweep} continues without this terminal.\n{commands}", err=True)
        return exit_codes.EXIT_STOPPED
    except OutOfReach as error:
        show(f"{error}\n{commands}", err=True)
        return exit_codes.EXIT_STOPPED
    if end.exit_code in _MEANINGS:
        return end.exit_code
    code = exit_codes.EXIT_STOPPED if end.began else exit_codes.REFUSED
    show(f"{start.sweep}: {describe_end(end)}\n", err=True)  # it ended without a message of its own
    if resume is not None and code == exit_codes.EXIT_STOPPED:
        show(f"Resume with: {resume}\n", err=True)
    return code


def describe_end(start: Submitted) -> str:
    """Return how a start ended, in a few words."""
    if start.exit_code in _MEANINGS:
        return _MEANINGS[start.exit_code]
    if start.state == "stopped":
        return _MEANINGS[exit_codes.EXIT_STOPPED]
    reason = " ".join(start.message.split())[-500:] or "for an unknown reason"
    return f"{'killed' if start.began else 'could not be started'}: {reason}"


def next_commands(sweep: str, address: str) -> str:
    """Return the commands that reach a submitted sweep, as lines to print."""
    return (
        "From any machine:\n"
        f"  rnnsweep status {sweep} --address {address}\n"
        f"  rnnsweep logs {sweep} --follow --address {address}\n"
        f"  rnnsweep stop {sweep} --address {address}\n"
        f"  rnnsweep report {sweep} -o report.html --address {address}\n"
    )
