"""Run trials: read requests as JSON lines on standard input, write events on standard output.

`docs/own_loop.md` shows how to run one by hand. Exit status: 0 if every request ended in a
result, 1 if a trial failed, 2 if a line was no request. With `--die-with-parent PID` the process
ends with that parent or its standard input, even in a trial. `--check WORKLOAD` only imports it: 0
if its function exists, 3 if it does not or its module fails, 4 if a package is not installed here;
the reason is on standard output. `--inspect` builds the own model of a request on standard input,
and answers by one line (`workloads.model_facts`).
"""

import argparse
import sys
from collections.abc import Sequence

from workloads.process import BackendClaim, bind_trainer_to_parent
from workloads.trainer import Channel, answer_inspection, answer_request, check_import


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer requests until standard input ends; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads",
        description="Run trials: read one JSON request per line, write JSON events.",
    )
    parser.add_argument(
        "--die-with-parent",
        type=int,
        metavar="PID",
        help="exit when this parent process ends, or when standard input ends",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="FOLDER",
        help="import from this folder what is found nowhere else; may be repeated",
    )
    parser.add_argument("--check", metavar="WORKLOAD", help="import a workload; run nothing")
    parser.add_argument(
        "--inspect", action="store_true", help="build the own model of a request; run nothing"
    )
    options = parser.parse_args(arguments)
    sys.path.extend(options.path)
    if options.check is not None:
        return check_import(options.check)
    if options.inspect:
        return answer_inspection()
    is_attached = options.die_with_parent is not None
    if is_attached:
        bind_trainer_to_parent(options.die_with_parent)
    channel, claim, status = Channel(), BackendClaim(), 0
    lines = channel.lines(exit_at_end=is_attached)
    for line in lines:
        try:
            status = max(status, answer_request(line, channel.emit, claim, lines))
        except KeyboardInterrupt:  # by hand: Ctrl-C; otherwise a workload raised it
            if not is_attached:
                return 130
            status = max(status, 1)
    return status


if __name__ == "__main__":
    sys.exit(main())
