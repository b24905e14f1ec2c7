"""The recorder's process: `python -m orchestrator.storage.tracking.worker FD`, asked over a socket.

A process of its own, so that MLflow's import and its writing take no time from the driver's
loop, and no part of it can print on the driver's terminal.
"""

from __future__ import annotations

import logging
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from orchestrator.storage.tracking.errors import LeaseHeld, SweepNotFound, TrackingError
from orchestrator.storage.tracking.requests import (
    Beat,
    Close,
    Curves,
    Find,
    Open,
    Read,
    Record,
    Request,
    Service,
)
from workloads.parent_death import die_with_parent

_log = logging.getLogger(__name__)


def main() -> None:
    """Answer requests until the driver closes the socket."""
    with Connection(int(sys.argv[1])) as connection:
        service: Service = connection.recv()
        # What stops a sweep may signal all of its processes (Ray's job server does). The driver
        # still has something to record then, and ends this process itself.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        die_with_parent(service.parent_pid)
        logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
        desk = _Desk(service)
        while True:
            try:
                request = connection.recv()
            except EOFError:
                return
            connection.send(_answer(desk, request))


class _Desk:
    """Turns a request into a call."""

    def __init__(self, service: Service) -> None:
        # Imported here, after the parent-death signal is set: it takes seconds.
        from orchestrator.storage.tracking.curves import read_curves  # noqa: PLC0415
        from orchestrator.storage.tracking.reader import find_sweep, read_sweep  # noqa: PLC0415
        from orchestrator.storage.tracking.writer import Tracker  # noqa: PLC0415

        self._service = service
        self._tracker: Tracker | None = None
        self._make, self._find, self._read = Tracker, find_sweep, read_sweep
        self._curves = read_curves

    def handle(self, request: Request) -> Any:
        uri = self._service.tracking_uri
        match request:
            case Open(opening):
                self._tracker = self._make(uri, self._service.artifact_root)
                return self._tracker.open_sweep(opening)
            case Find(name, trials):
                return self._find(uri, name, trials=trials)
            case Read(name, generation):
                if self._tracker is not None:
                    self._tracker.keep_table()  # so that this reads no run, nor does the next
                return self._read(uri, name, generation)
            case Curves(run_ids):
                return self._curves(uri, run_ids)
        if self._tracker is None:
            raise RuntimeError(f"{type(request).__name__} before Open")
        match request:
            case Record(batch):
                return self._tracker.record(batch)
            case Beat():
                return self._tracker.beat()
            case Close(state, texts, description):
                return self._tracker.close(state, texts, description)


def _answer(desk: _Desk, request: Request) -> Any:
    """The answer, or the error in its place."""
    try:
        return desk.handle(request)
    except (TrackingError, LeaseHeld, SweepNotFound) as error:
        _log.warning("%s", error)
        return error
    except Exception as error:  # noqa: BLE001  (told to the driver, whole in the log)
        _log.exception("in answer to %s", type(request).__name__)
        return TrackingError(
            "the recorder process",
            "no error",
            f"{type(error).__name__}: {error}",
            "Its log has the whole trace; please report it",
        )


if __name__ == "__main__":
    main()
