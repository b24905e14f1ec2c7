"""The driver's side of recording: finished trials go in at once and reach MLflow in their time.

A thread owns the recorder process, hands it what is waiting as one batch after another, keeps
the lease alive, and starts a new process where one died. It lives as long as the process: the
kernel's parent-death signal follows the thread that made the child.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial, Telemetry
from orchestrator.storage.tracking.errors import LeaseHeld, NotRecorded, TrackingError
from orchestrator.storage.tracking.lease import BEAT_S
from orchestrator.storage.tracking.manifest import FoundSweep, SweepOpening
from orchestrator.storage.tracking.recorder_process import RecorderService
from orchestrator.storage.tracking.requests import (
    Beat,
    Close,
    Curves,
    Find,
    Open,
    Read,
    Record,
    Request,
)

_BATCH = 50  # about a second of writing: calls and heartbeats go between batches
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_CLOSE_LIMIT_S = 60.0

_log = logging.getLogger(__name__)


class Recorder:
    """Records one sweep in MLflow beside the driver. A context manager; thread-safe."""

    def __init__(
        self,
        tracking_uri: str,
        home: Path,
        log_path: Path,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._service = RecorderService(tracking_uri, home, log_path, environ)
        self._change = threading.Condition()
        self._waiting: deque[FinishedTrial] = deque()
        self._calls: deque[tuple[Request, Future[Any]]] = deque()
        self._refused: dict[str, str] = {}
        self._is_open = False
        self._stopping = False
        self._draining = False
        self._is_silent = False
        self._trouble: Exception | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._retry_s = 0.0  # monotonic, as all times here
        self._beat_s = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True, name="recorder")

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_open and not self._is_silent and not isinstance(self._trouble, LeaseHeld):
            try:
                self.close("stopped", {}, timeout_s=5.0)
            except (TrackingError, LeaseHeld, NotRecorded) as trouble:
                _log.warning("%s", trouble)
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join(timeout=1.0 if self._is_silent else 10.0)

    @property
    def pending(self) -> int:
        """Trials that were put and are not in MLflow yet."""
        return len(self._waiting)

    @property
    def trouble(self) -> Exception | None:
        """What keeps trials from being recorded just now; None if nothing does.

        A `LeaseHeld` is final: another driver has taken the sweep over.
        """
        return self._trouble

    @property
    def refused(self) -> Mapping[str, str]:
        """Why MLflow will never take some of the trials as they are, by trial key."""
        with self._change:
            return dict(self._refused)

    @property
    def process_id(self) -> int | None:
        """The recorder process, where one runs."""
        process = self._service.process
        return process.pid if process else None

    def find(self, name: str, *, trials: bool = True) -> FoundSweep | None:
        """What the store has of a sweep's latest generation; None if nothing.

        Without `trials` none are read, which takes no time however many there are; `open`
        returns them too.

        Raises:
            TrackingError: the store cannot be reached or used.
        """
        return self._call(Find(name, trials))

    def read(
        self, name: str, generation: int | None = None, *, timeout_s: float | None = None
    ) -> SweepRecord:
        """The sweep as a report wants it, with all that was recorded.

        Raises:
            SweepNotFound: the store has none of that name and generation.
            TrackingError: the store cannot be reached or used.
            NotRecorded: it did not answer in `timeout_s`.
        """
        try:
            return self._call(Read(name, generation), timeout_s)
        except TimeoutError as error:
            self._is_silent = True
            raise NotRecorded(0, f"no answer in {timeout_s:.0f} s") from error

    def curves(
        self, run_ids: Sequence[str], *, timeout_s: float | None = None
    ) -> Mapping[str, Telemetry]:
        """The telemetry curves of a few trials, by the id of their run; {} if that takes too long.

        Raises:
            TrackingError: the store cannot be reached or used.
        """
        try:
            return self._call(Curves(tuple(run_ids)), timeout_s)
        except TimeoutError:
            self._is_silent = True
            return {}

    def open(self, opening: SweepOpening) -> list[FinishedTrial]:
        """Take the sweep's lease; what the store has finished. Waits for the store.

        Raises:
            LeaseHeld: another driver records into it.
            TrackingError: the store cannot be reached or used.
        """
        finished: list[FinishedTrial] = self._call(Open(opening))
        with self._change:
            self._is_open = True
            self._beat_s = time.monotonic() + BEAT_S
            self._change.notify_all()
        return finished

    def put(self, finished: FinishedTrial) -> None:
        """Have a trial recorded. Never waits, never raises: the journal has it already."""
        with self._change:
            self._waiting.append(finished)
            self._change.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Wait until all that was put is in MLflow, but for what it refuses (`refused`).

        Raises:
            NotRecorded: it is not, after `timeout_s`.
            LeaseHeld: another driver has taken the sweep over.
        """
        with self._change:
            self._draining, self._retry_s = True, 0.0
            self._change.notify_all()
            self._change.wait_for(lambda: not self._waiting or self._has_given_up(), timeout_s)
            self._draining = False
            if isinstance(self._trouble, LeaseHeld):
                raise self._trouble
            if self._waiting:
                self._is_silent = True
                reason = str(self._trouble or f"the store took longer than {timeout_s:.0f} s")
                raise NotRecorded(len(self._waiting), reason)
            self._is_silent = False

    def close(
        self,
        state: Literal["complete", "stopped", "failed"],
        texts: Mapping[str, str],
        *,
        description: str = "",
        timeout_s: float = _CLOSE_LIMIT_S,
    ) -> None:
        """Record what is left, then the reports (artifacts by path), the state, and what the
        sweep's page in MLflow begins with (Markdown).

        Raises:
            NotRecorded: the store could not be written; the next start does it.
            LeaseHeld: another driver has taken the sweep over.
        """
        self.drain(timeout_s)
        try:
            self._call(Close(state, texts, description), timeout_s=timeout_s)
        except (TrackingError, TimeoutError) as error:
            raise NotRecorded(0, str(error) or f"no answer in {timeout_s:.0f} s") from error
        with self._change:
            self._is_open = False

    def _call(self, request: Request, timeout_s: float | None = None) -> Any:
        """Have the thread ask, and wait for the answer."""
        answer: Future[Any] = Future()
        with self._change:
            if self._stopping:
                raise RuntimeError("the recorder was closed")
            self._calls.append((request, answer))
            self._change.notify_all()
        return answer.result(timeout_s)

    # The rest runs in the recorder's thread.

    def _run(self) -> None:
        try:
            self._service.start()  # MLflow's import runs beside the driver's own start
            while self._take_turn():
                pass
        except Exception as error:  # noqa: BLE001  (told to whoever waits)
            self._trouble = error
            _log.exception("the recorder's thread ended")
        finally:
            self._service.close()
            with self._change:
                self._stopping = True
                for _, answer in self._calls:
                    answer.set_exception(self._trouble or RuntimeError("the recorder was closed"))
                self._change.notify_all()

    def _take_turn(self) -> bool:
        """Answer a call, record a batch or beat, when it is time; False at the end."""
        with self._change:
            self._change.wait_for(self._has_work, self._idle_s())
            if self._stopping:
                return False
            call = self._calls.popleft() if self._calls else None
            batch = tuple(self._waiting)[:_BATCH]
        if call is not None:
            _answer(self._service, *call)
        elif self._idle_s() == 0:
            self._attempt(batch)
        return True

    def _has_work(self) -> bool:
        return self._stopping or bool(self._calls) or self._idle_s() == 0

    def _idle_s(self) -> float | None:
        """Seconds until there is something to do, should nobody call; None: nothing."""
        if not self._is_open or self._has_given_up():
            return None
        due_s = 0.0 if self._waiting else self._beat_s
        if self._trouble is not None:
            due_s = max(due_s, self._retry_s)
        return max(0.0, due_s - time.monotonic())

    def _has_given_up(self) -> bool:
        return self._stopping or isinstance(self._trouble, LeaseHeld)

    def _attempt(self, batch: tuple[FinishedTrial, ...]) -> None:
        """Record a batch, or renew the lease where there is none."""
        try:
            refused = self._service.ask(Record(batch) if batch else Beat())
        except (TrackingError, LeaseHeld) as error:
            with self._change:
                self._trouble = error
                pause_s = min(self._pause_s, _FIRST_PAUSE_S) if self._draining else self._pause_s
                self._retry_s = time.monotonic() + pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                self._change.notify_all()
            _log.warning("recording is tried again: %s", error)
            return
        with self._change:
            self._trouble, self._pause_s = None, _FIRST_PAUSE_S
            self._beat_s = time.monotonic() + BEAT_S
            for finished in batch:
                self._waiting.popleft()
                self._refused.pop(finished.trial.key, None)  # a retry may pass
            self._refused |= refused or {}
            self._change.notify_all()


def _answer(service: RecorderService, request: Request, answer: Future[Any]) -> None:
    try:
        result = service.ask(request)
    except Exception as error:  # noqa: BLE001  (raised where the answer is awaited)
        answer.set_exception(error)
    else:
        answer.set_result(result)
