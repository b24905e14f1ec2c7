"""The recorder process: `python -m orchestrator.storage.tracking FD` answers calls on a socket.

The tracker's library is imported and written to in a process of its own. Neither takes time from
the driver's loop, and nothing that the library prints reaches the driver's terminal.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from orchestrator.core.errors import Refusal
from orchestrator.storage.tracking.trackers import import_trackers, without_passwords
from orchestrator.storage.tracking.tracking_errors import TrackingError
from workloads.process import die_with_parent

if TYPE_CHECKING:
    from orchestrator.storage.tracking.recorder_calls import RecorderCall
    from orchestrator.storage.tracking.writer import Writer

_log = logging.getLogger(__name__)


class _WithoutPasswords(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_passwords(super().format(record))


def main() -> None:
    """Answer the driver's calls until it closes the socket."""
    with Connection(int(sys.argv[1])) as connection:
        tracking_uri, home, parent_pid = connection.recv()
        # Whatever stops a sweep may signal all of its processes, as Ray's job server does. The
        # driver still records then, and ends this process itself.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        die_with_parent(parent_pid)
        gc.set_threshold(200_000)  # the trials of a sweep are one large structure
        os.umask(0o077)  # a tracker's file is next to others where a home was there before
        logging.basicConfig(level=logging.WARNING)
        (handler,) = logging.getLogger().handlers
        handler.setFormatter(_WithoutPasswords("%(asctime)s %(name)s: %(message)s"))
        from orchestrator.storage.tracking.writer import Writer  # noqa: PLC0415

        # It takes seconds: meanwhile the driver asks for the generation, and reads its journal.
        threading.Thread(target=import_trackers, daemon=True).start()
        writer = Writer(tracking_uri, home)
        while True:
            try:
                call = connection.recv()
            except EOFError:
                return
            connection.send(_answer(call, writer))


def _answer(call: RecorderCall[object], writer: Writer) -> object:
    """Return the result of a call, or the error that the driver's side raises."""
    try:
        return call.perform(writer)
    except Refusal as error:
        _log.warning("%s", error)
        return error
    except Exception as error:  # noqa: BLE001  (raised in the driver; its trace is in the log)
        _log.exception("in %s", type(call).__name__)
        return TrackingError(
            "the recorder process",
            f"{type(error).__name__}: {error}",
            "Please report this, with the traceback in its log",
        )


if __name__ == "__main__":
    main()
