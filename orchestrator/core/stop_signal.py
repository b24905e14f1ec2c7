"""Ctrl-C: the first one stops a sweep cleanly, a second one at once.

Only the commands may change the process for good. Everything below them uses `restored_process`.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

STOPPED = 3  # the exit code of a sweep that was stopped and can be continued
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """Ends what runs, on the way to a clean exit; `reason` is a sentence, if it was no signal.

    Not an `Exception`: Tune would catch it and wait for every running trial.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def exit_at_once(terminal: int = 2, text: str = "") -> None:
    """End the process without any clean-up: print a text, with the cursor visible again."""
    shown = f"\x1b[?25h\n{text}" if os.isatty(terminal) else text
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(terminal, shown.encode())
    os._exit(STOPPED)


class StopSignal:
    """A request by SIGINT, SIGTERM or SIGHUP to stop; signals reach the main thread only.

    A SIGHUP that is ignored, as under nohup, stays ignored. The handler calls `on_first` at the
    first signal, to inform the user, and then `on_second`.
    """

    def __init__(
        self, on_first: Callable[[], None], on_second: Callable[[], None] = exit_at_once
    ) -> None:
        self._on_first = on_first
        self._on_second = on_second
        self.is_set = False
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        if self._before[signal.SIGHUP] is signal.SIG_IGN:
            del self._before[signal.SIGHUP]
        self._at_once = False

    def __enter__(self) -> Self:
        for number in self._before:
            _handle_by(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            _handle_by(number, handler)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Within it the first signal raises `Stopped` wherever it comes: for a wait."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.is_set:
            raise Stopped

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            self._on_second()
        self.is_set = True
        if self._at_once:
            raise Stopped
        self._on_first()


def reclaim_sigterm() -> None:
    """Set Python's handler of SIGTERM again, in the main thread: native code may have replaced it.

    Ray's handler, where Ray starts in another thread, calls Python's, but also aborts the process
    three seconds later.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None:  # one that Python did not set
        _handle_by(signal.SIGTERM, handler)


def _handle_by(number: signal.Signals, handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


@contextlib.contextmanager
def restored_process() -> Iterator[None]:
    """Restore environment and signal handlers, which Ray changes, at the end of the block."""
    environ = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for name in os.environ.keys() - environ.keys():
            del os.environ[name]
        os.environ.update(environ)
        for number, handler in handlers.items():
            _handle_by(number, handler)
