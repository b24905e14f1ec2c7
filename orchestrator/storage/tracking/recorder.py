"""The driver's side of recording: it queues finished trials and hands them to a recorder process.

A thread of the driver starts the process, sends it the queue in batches, renews the lease, and
starts another process when one dies. The thread lives as long as the process, because the
kernel's parent-death signal follows the thread that spawned the child. The tracker's library is not
imported on this side.
"""

from __future__ import annotations  # `Connection` has no parameters at runtime

import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from orchestrator.core.errors import Refusal
from orchestrator.core.records import EndState, SweepRecord
from orchestrator.core.trial import FinishedTrial
from orchestrator.core.version import import_path
from orchestrator.storage.private_files import open_private
from orchestrator.storage.tracking.recorder_calls import (
    CallResult,
    CloseSweep,
    FindSweep,
    LogModel,
    OpenSweep,
    ReadSweep,
    RecorderCall,
    RecordTrials,
)
from orchestrator.storage.tracking.stored_records import (
    RENEWAL_S,
    Answer,
    FoundSweep,
    StoreDifferences,
    SweepOpening,
    record_of,
)
from orchestrator.storage.tracking.tracking_errors import LeaseHeld, NotRecorded, TrackingError

_BATCH = 50  # about a second of writing: calls and renewals of the lease are sent between batches
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_CLOSE_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 300.0
_EXIT_LIMIT_S = 10.0

_log = logging.getLogger(__name__)

# Frozen mappings cross as plain ones.
ForkingPickler.register(MappingProxyType, lambda mapping: (dict, (dict(mapping),)))


class RecorderDied(TrackingError):
    """The process ended, or did not answer and was killed: another one may do better."""

    is_away = True


class Recorder:
    """The recorder of one sweep, on the driver's side; thread-safe. Raises `TrackingError`."""

    def __init__(self, tracking_uri: str, home: Path, log_path: Path) -> None:
        self._process = RecorderProcess(tracking_uri, home, log_path)
        self._change = threading.Condition()
        self._queue: deque[FinishedTrial] = deque()
        self._calls: deque[tuple[RecorderCall[Any], Future[Any]]] = deque()
        self._refused: dict[str, str] = {}
        self._is_open = False
        self._stopping = False
        self._draining = False
        self._is_silent = False
        self.trouble: Exception | None = None
        """The error that keeps trials from being recorded now, or None; a `LeaseHeld` is final."""
        self._pause_s = _FIRST_PAUSE_S
        self._retry_s = 0.0  # monotonic, as all times here
        self._renew_at_s = 0.0
        self._thread = threading.Thread(
            target=self._record_until_closed, daemon=True, name="recorder"
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open and not self._is_silent and not isinstance(self.trouble, LeaseHeld):
            try:
                self.close("stopped", {}, timeout_s=5.0)
            except Refusal as trouble:
                _log.warning("%s", trouble)
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join(timeout=1.0 if self._is_silent else 10.0)

    @property
    def waiting(self) -> int:
        """The number of trials that wait to be recorded."""
        return len(self._queue)

    @property
    def lease_age_s(self) -> float | None:
        """Seconds since the lease was renewed; None while the sweep is not open."""
        with self._change:
            return time.monotonic() - (self._renew_at_s - RENEWAL_S) if self._is_open else None

    @property
    def refused(self) -> Mapping[str, str]:
        """Why the tracker will never take some of the trials as they are, by trial key."""
        with self._change:
            return dict(self._refused)

    def find(self, name: str, *, fresh: bool = False) -> FoundSweep:
        """Return what the store has of a sweep's name: `reader.find`."""
        return self._call(FindSweep(name, fresh))

    def read(
        self, had: Mapping[str, FinishedTrial], *, timeout_s: float | None = None
    ) -> SweepRecord:
        """Return the open sweep with those trials of the store that the caller `had`, by key.

        Raise `NotRecorded` if the answer takes over `timeout_s`.
        """
        record, run_ids = self._call_again(ReadSweep(), timeout_s=timeout_s)
        trials = (replace(record_of(had[key]), run_id=run_id) for key, run_id in run_ids.items())
        return record.with_trials(trials)

    def open(
        self, opening: SweepOpening, had: Mapping[str, float] = MappingProxyType({})
    ) -> StoreDifferences:
        """Take the sweep's lease, or raise `LeaseHeld`; or declare what an open sweep has now.

        Return the trials that only the store has, and the keys of those that it lacks. The caller
        `had` outcomes with these ends, by key.
        """
        differences = self._call(OpenSweep(opening, had))
        with self._change:
            self._is_open = True
            self._renew_at_s = time.monotonic() + RENEWAL_S
            self._change.notify_all()
        return differences

    def queue_trial(self, finished: FinishedTrial) -> None:
        """Queue a trial for recording. Never waits, never raises: the journal already has it."""
        with self._change:
            self._queue.append(finished)
            self._change.notify_all()

    def drain(
        self,
        timeout_s: float,
        *,
        patient: bool = False,
        on_trouble: Callable[[str], object] = lambda trouble: None,
    ) -> None:
        """Wait until the tracker has every queued trial, except those that it refuses (`refused`).

        `on_trouble` is called with what it waits for if the store cannot be written. Raise
        `NotRecorded` if the wait takes over `timeout_s` (`patient`: if none is recorded in that
        time), `LeaseHeld` if the sweep was taken over.
        """
        with self._change:
            self._draining, self._retry_s = True, 0.0
            self._change.notify_all()
            before = len(self._queue) + 1
            while self._queue and len(self._queue) < before and not self._has_given_up():
                before = len(self._queue) if patient else 0
                self._wait_until_drained(timeout_s, on_trouble)
            self._draining = False
            if isinstance(self.trouble, LeaseHeld):
                raise self.trouble
            self._is_silent = bool(self._queue)
            if self._queue:
                reason = str(self.trouble or f"the store took longer than {timeout_s:.0f} s")
                raise NotRecorded(len(self._queue), reason)

    def _wait_until_drained(self, timeout_s: float, on_trouble: Callable[[str], object]) -> None:
        """Wait, at most that long, until the queue is empty; report each new trouble."""
        give_up_s, reported = time.monotonic() + timeout_s, ""
        while self._queue and not self._has_given_up():
            if self.trouble is not None and str(self.trouble) != reported:
                reported = str(self.trouble)
                on_trouble(reported)
            left_s = give_up_s - time.monotonic()
            if left_s <= 0:
                return
            self._change.wait(left_s)

    def close(
        self,
        state: EndState,
        texts: Mapping[str, str],
        answer: Answer | None = None,
        *,
        timeout_s: float = _CLOSE_LIMIT_S,
    ) -> None:
        """Record the queued trials, then reports (by path) and the state, and release the lease.

        `timeout_s` limits the draining, and the rest. Raise as `drain` does.
        """
        self.drain(timeout_s)
        try:
            self._call_again(CloseSweep(state, texts, answer), timeout_s=timeout_s)
        except TrackingError as error:
            raise NotRecorded(0, str(error)) from error
        with self._change:
            self._is_open = False

    def log_model(self, run_id: str, packed: Path, timeout_s: float) -> None:
        """Log a packed model with its run; raise `NotRecorded`, or the store's `TrackingError`."""
        self._call(LogModel(run_id, packed), timeout_s=timeout_s)

    def _call_again(self, call: RecorderCall[CallResult], *, timeout_s: float | None) -> CallResult:
        """Make a call that may be repeated, until the store or the process is there again.

        Raise what the last try raised after `timeout_s`, or a minute without one.
        """
        give_up_s = time.monotonic() + (_CLOSE_LIMIT_S if timeout_s is None else timeout_s)
        while True:
            left_s = max(0.0, give_up_s - time.monotonic())
            limit_s = None if timeout_s is None else left_s
            try:
                return self._call(call, timeout_s=limit_s)
            except TrackingError as error:
                if not error.is_away or left_s <= _FIRST_PAUSE_S:
                    raise
                _log.warning("%s failed; trying again: %s", type(call).__name__, error)
                time.sleep(_FIRST_PAUSE_S)

    def _call(
        self, call: RecorderCall[CallResult], *, timeout_s: float | None = None
    ) -> CallResult:
        """Let the recorder's thread make a call; return its result, or raise its error."""
        result = Future[CallResult]()
        with self._change:
            if self._stopping:
                raise self.trouble or RuntimeError("the recorder was closed")
            self._calls.append((call, result))
            self._change.notify_all()
        try:
            return result.result(timeout_s)
        except TimeoutError as error:
            self._is_silent = True
            raise NotRecorded(0, f"no answer in {timeout_s:.0f} s") from error

    # The rest runs in the recorder's thread.

    def _record_until_closed(self) -> None:
        """Pass what is queued to the recorder's process, until `close`; answer all who wait."""
        try:
            self._process.start()  # its imports take seconds: as the driver's own start does
            while not self._stopping:
                self._take_turn()
        except Exception as error:  # noqa: BLE001  (raised in whoever waits)
            self.trouble = error
            _log.exception("the recorder's thread ended")
        finally:
            self._process.close()
            with self._change:
                self._stopping = True
                for _, result in self._calls:
                    closed = RuntimeError("the recorder was closed")
                    result.set_exception(self.trouble or closed)
                self._change.notify_all()

    def _take_turn(self) -> None:
        """Wait until it is time for a call, a batch or a renewal of the lease, and make it."""
        with self._change:
            self._change.wait_for(
                lambda: self._stopping or self._calls or self._idle_s() == 0, self._idle_s()
            )
            if self._stopping:
                return
            waiting = self._calls.popleft() if self._calls else None
            batch = tuple(self._queue)[:_BATCH]
        if waiting is None:
            if self._idle_s() == 0:
                self._send(batch)
            return
        call, result = waiting
        try:
            result.set_result(self._process.ask(call))
        except Exception as error:  # noqa: BLE001  (raised where the result is awaited)
            result.set_exception(error)

    def _idle_s(self) -> float | None:
        """Return the seconds until there is something to do without a call; None: nothing."""
        if not self._is_open or self._has_given_up():
            return None
        next_s = 0.0 if self._queue else self._renew_at_s
        if self.trouble is not None:
            next_s = max(next_s, self._retry_s)
        return max(0.0, next_s - time.monotonic())

    def _has_given_up(self) -> bool:
        return self._stopping or isinstance(self.trouble, LeaseHeld)

    def _send(self, batch: tuple[FinishedTrial, ...]) -> None:
        """Record a batch, which may be empty: the lease is renewed too."""
        try:
            refused = self._process.ask(RecordTrials(batch))
        except (TrackingError, LeaseHeld) as error:
            with self._change:
                self.trouble = error
                pause_s = min(self._pause_s, _FIRST_PAUSE_S) if self._draining else self._pause_s
                self._retry_s = time.monotonic() + pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                self._change.notify_all()
            _log.warning("recording failed; trying again: %s", error)
            return
        with self._change:
            self.trouble, self._pause_s = None, _FIRST_PAUSE_S
            self._renew_at_s = time.monotonic() + RENEWAL_S
            for finished in batch:
                self._queue.popleft()
                self._refused.pop(finished.key, None)  # a retry may pass
            self._refused |= refused
            self._change.notify_all()


class RecorderProcess:
    """The handle of the recorder process, which is replaced when it dies.

    It answers one call at a time. A new process opens the sweep that the last one had open.
    """

    def __init__(self, tracking_uri: str, home: Path, log_path: Path) -> None:
        self._setup = tracking_uri, home, os.getpid()
        self._log_path = log_path
        self._environ = {**os.environ, **import_path(os.environ)}
        self._opening: SweepOpening | None = None
        self._has_opened = False
        self._running: tuple[subprocess.Popen[bytes], Connection[Any, Any]] | None = None

    def start(self) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
        """Start the process unless it runs. It dies with the thread that calls this."""
        if self._running is None:
            ours, theirs = Pipe()
            self._log_path.parent.mkdir(parents=True, exist_ok=True)
            log = open_private(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            with theirs, os.fdopen(log, "ab"):
                descriptor = theirs.fileno()
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", __package__, str(descriptor)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[descriptor],
                    env=self._environ,
                    start_new_session=True,  # the driver handles Ctrl-C in the terminal
                )
            self._running, self._has_opened = (process, ours), False
            ours.send(self._setup)
        return self._running

    def ask(self, call: RecorderCall[CallResult]) -> CallResult:
        """Return the result of a call.

        Raise the error that it answered with, or `RecorderDied`; the next call starts another.
        """
        try:
            if self._opening is not None and not (self._running and self._has_opened):
                self._exchange(OpenSweep(self._opening, has_claimed=True))
                self._has_opened = True
            result = self._exchange(call)
        except RecorderDied:
            self.close()
            raise
        if isinstance(call, OpenSweep):
            self._opening, self._has_opened = call.opening, True
        elif isinstance(call, CloseSweep):
            self._opening = None
        return result

    def close(self) -> None:
        """Kill the process, if there is one: nothing is in progress between two calls."""
        if self._running is not None:
            process, connection = self._running
            connection.close()
            process.kill()
            process.wait()
            self._running = None

    def _exchange(self, call: RecorderCall[CallResult]) -> CallResult:
        """Let the process perform a call; return its result, or raise its error.

        Raise `RecorderDied` if the process ended or gave no answer.
        """
        process, connection = self.start()
        try:
            connection.send(call)
            if not connection.poll(_ANSWER_LIMIT_S):
                process.kill()
                raise self._died(process.pid, f"it did not answer within {_ANSWER_LIMIT_S:.0f} s")
            answer: CallResult | Exception = connection.recv()
        except (EOFError, OSError) as error:
            reason = f"it ended with exit status {_exit_status(process)}"
            raise self._died(process.pid, reason) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _died(self, pid: int, reason: str) -> RecorderDied:
        next_step = f"Run the same command again. Its log: {self._log_path}"
        return RecorderDied(f"recorder process {pid}", reason, next_step)


def _exit_status(process: subprocess.Popen[bytes]) -> int:
    """Return the exit status of a process that has closed its pipe; kill it if it does not end."""
    try:
        return process.wait(_EXIT_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
