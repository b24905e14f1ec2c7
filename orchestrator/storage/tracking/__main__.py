"""The recorder process: `python -m orchestrator.storage.tracking FD` answers requests on a socket.

MLflow is imported and written to in a process of its own. Neither takes time from the driver's
loop, and nothing that MLflow prints reaches the driver's terminal.
"""

from __future__ import annotations

import logging
import signal
import sys
from multiprocessing.connection import Connection

from orchestrator.storage.tracking.requests import Setup
from workloads.parent_death import die_with_parent


def main() -> None:
    """Answer requests until the driver closes the socket."""
    with Connection(int(sys.argv[1])) as connection:
        setup: Setup = connection.recv()
        # Whatever stops a sweep may signal all of its processes, as Ray's job server does. The
        # driver still records then, and ends this process itself.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        die_with_parent(setup.parent_pid)
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
        # Imported after the parent-death signal is set: MLflow's import takes seconds.
        from orchestrator.storage.tracking.writer import Writer  # noqa: PLC0415

        writer = Writer(setup.tracking_uri, setup.artifact_root)
        while True:
            try:
                request = connection.recv()
            except EOFError:
                return
            connection.send(writer.answer(request))


if __name__ == "__main__":
    main()
