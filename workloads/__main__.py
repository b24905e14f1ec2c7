"""`python -m workloads`: trials in as JSON lines on standard input, events out.

By hand:

    echo '{"workload": "image_rows", "implementation": "tensorflow/portable"}' | python -m workloads

A trial that is timed in slices takes its commands from the lines after its request:

    {"workload": "image_rows", "implementation": "torch/fused", "measure": "timing"}
    {"command": "slice"}
    {"command": "finish"}

Exit status: 0 when every request ended in a result, 1 when some trial failed, 2 when some line
was not a request. With `--die-with-parent PID` the process belongs to that parent: it ends with
it, or as soon as standard input ends, even in the middle of a trial.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from workloads.backend import BackendClaim
from workloads.parent_death import bind_trainer_to_parent
from workloads.trainer.channel import Channel
from workloads.trainer.commands import CommandReader
from workloads.trainer.requests import answer_request


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer requests until there are no more; returns the exit status."""
    parent = _parser().parse_args(arguments).die_with_parent
    if parent is not None:
        bind_trainer_to_parent(parent)
    channel, claim, status = Channel(), BackendClaim(), 0
    lines = channel.lines(at_end=_leave if parent is not None else _finish_what_is_queued)
    commands = CommandReader(lines)
    for line in lines:
        try:
            status = max(status, answer_request(line, channel.emit, claim, commands))
        except KeyboardInterrupt:  # by hand: Ctrl-C; otherwise a workload raised it
            if parent is None:
                return 130
            status = max(status, 1)
    return status


def _leave() -> None:
    os._exit(0)  # a trial may be running, and nobody waits for it any more


def _finish_what_is_queued() -> None:
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workloads",
        description="Runs trials: one JSON request a line in, JSON events out.",
    )
    parser.add_argument(
        "--die-with-parent",
        type=int,
        metavar="PID",
        help="end with this parent process, and when standard input ends",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
