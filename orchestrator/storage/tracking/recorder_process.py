"""The recorder's process, held: started, asked, started again, ended. No MLflow on this side."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orchestrator.storage.tracking import address
from orchestrator.storage.tracking.errors import TrackingError
from orchestrator.storage.tracking.manifest import SweepOpening
from orchestrator.storage.tracking.requests import Close, Open, Request, Service

_ANSWER_LIMIT_S = 300.0

# Frozen mappings cross as plain ones.
ForkingPickler.register(MappingProxyType, lambda mapping: (dict, (dict(mapping),)))


class RecorderGone(TrackingError):
    """The process ended, or did not answer and was ended."""


class RecorderProcess:
    """One process, asked one thing at a time. Dies with the thread that makes it."""

    def __init__(self, service: Service, log_path: Path, environ: Mapping[str, str]) -> None:
        ours, theirs = Pipe()
        self._log_path = log_path
        self._connection: Connection[Any, Any] = ours
        surroundings = dict(environ)
        address.set_defaults(surroundings)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with theirs, log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "orchestrator.storage.tracking.worker",
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env=surroundings,
                start_new_session=True,  # Ctrl-C in the terminal is the driver's to handle
            )
        self.pid = self._process.pid
        ours.send(service)

    def ask(self, request: Request) -> Any:
        """The answer to a request.

        Raises:
            RecorderGone: there is none, and will be none.
            TrackingError, LeaseHeld, SweepNotFound: as the process answered.
        """
        try:
            self._connection.send(request)
            deadline_s = time.monotonic() + _ANSWER_LIMIT_S
            while not self._connection.poll(1.0):
                if time.monotonic() > deadline_s:
                    self._process.kill()
                    raise self._gone(f"none in {_ANSWER_LIMIT_S:.0f} s")
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.wait()
            raise self._gone(f"its end, with exit status {self._process.returncode}") from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process. Nothing is under way between two requests, so it needs no farewell
        (MLflow's takes a second).
        """
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _gone(self, received: str) -> RecorderGone:
        return RecorderGone(
            f"recorder process {self.pid}", "an answer", received, f"Its log: {self._log_path}"
        )


class RecorderService:
    """The recorder's process, and another one after it where it died: each knows the sweep."""

    def __init__(
        self, tracking_uri: str, home: Path, log_path: Path, environ: Mapping[str, str]
    ) -> None:
        root = address.artifact_root(home, tracking_uri)
        self._service = Service(tracking_uri, root, os.getpid())
        self._log_path = log_path
        self._environ = environ
        self._opening: SweepOpening | None = None
        self._knows_sweep = False
        self.process: RecorderProcess | None = None

    def start(self) -> RecorderProcess:
        """A process, the one there was or a new one."""
        if self.process is None:
            self.process = RecorderProcess(self._service, self._log_path, self._environ)
            self._knows_sweep = False
        return self.process

    def ask(self, request: Request) -> Any:
        """As `RecorderProcess.ask`; after `RecorderGone` the next request has a new process."""
        try:
            process = self.start()
            if self._opening is not None and not self._knows_sweep:
                process.ask(Open(self._opening))
                self._knows_sweep = True
            answer = process.ask(request)
        except RecorderGone:
            self.close()
            raise
        if isinstance(request, Open):
            self._opening, self._knows_sweep = request.opening, True
        elif isinstance(request, Close):
            self._opening = None
        return answer

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.close()
            self.process = None
