"""The thread of a driver that writes its heartbeat, and rotates its logs."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from orchestrator.storage import heartbeat
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal
from orchestrator.storage.log_rotation import rotate_log
from orchestrator.storage.tracking.recorder import Recorder

_log = logging.getLogger("rnnsweep")


class Pulse:
    """Writes what the driver does, some times a minute and whenever that changes."""

    def __init__(self, folder: SweepFolder, recorder: Recorder, recorder_log: Path) -> None:
        self._folder, self._recorder = folder, recorder
        self._logs = folder.log, recorder_log
        self.journal: Journal | None = None
        """The journal, once it is open."""
        self._waits_for, self._waits_since_s = "starting", time.time()
        self._stop, self._guard = threading.Event(), threading.Lock()
        self._has_warned = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="pulse")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._beat(has_ended=True)

    def waits_for(self, text: str) -> None:
        """Note what the driver does or waits for from now on."""
        self._waits_for, self._waits_since_s = text, time.time()
        self._beat()

    def noting(self, show: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function that notes what is done now, and shows it as `show` does."""

        def phase(text: str) -> None:
            self.waits_for(text)
            show(text)

        return phase

    def _run(self) -> None:
        while not self._stop.wait(heartbeat.PULSE_S):
            self._beat()

    def _beat(self, *, has_ended: bool = False) -> None:
        """Write the heartbeat; a full disk is no reason to end, and is told once."""
        try:
            with self._guard:
                current = self._heartbeat(has_ended=has_ended)
                heartbeat.write_heartbeat(self._folder.path, current)
                for log in self._logs:
                    rotate_log(log)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("no sign of life for machines: %s", error)

    def _heartbeat(self, *, has_ended: bool) -> heartbeat.Heartbeat:
        state = self.journal.state if self.journal else None
        finished = [] if state is None else list(state.finished.values())
        trouble = self._recorder.trouble
        free = 0
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(self._folder.path).free
        return heartbeat.Heartbeat(
            sweep=state.identity.label if state else self._folder.name,
            host=platform.node(),
            pid=os.getpid(),
            at_s=time.time(),
            has_ended=has_ended,
            waits_for=self._waits_for,
            waits_since_s=self._waits_since_s,
            trials_ended=len(finished),
            trials_failed=sum(trial.status == "failed" for trial in finished),
            last_trial_s=max((trial.ended_s for trial in finished), default=None),
            not_in_store=self._recorder.waiting,
            store_trouble=str(trouble) if trouble else "",
            lease_age_s=self._recorder.lease_age_s,
            lost_attempts=state.lost_attempts if state else 0,
            disk_free_bytes=free,
        )
