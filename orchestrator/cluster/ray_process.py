"""Ray inside this process: its settings during a connection, and the process as it was afterwards.

Ray reads some environment variables once and keeps them in the process: the authentication mode,
the token, its whole configuration. A caller (a notebook, a test) that uses Ray before or after a
sweep must not see the sweep's settings, so what Ray keeps is refreshed when they are restored.
"""

import contextlib
import importlib
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any

from orchestrator.core.stop_signal import reclaim_sigterm, restored_process

_THREAD = "ray-connection"
_START_S, _LOOK_S = 180.0, 0.1
_LEAVE_S, _END_S = 10.0, 60.0  # to leave a cluster, and to end one of our own


@contextlib.contextmanager
def restored_ray() -> Iterator[None]:
    """Restore environment, signal handlers, and what Ray keeps of the environment, at the end.

    Within the block, call `reread_environment` after a change of a variable of Ray.
    """
    try:
        with restored_process():
            yield
    finally:
        if not has_waiting_threads():  # they still use the connection, with its time limits
            reread_environment()


def reread_environment() -> None:
    """Let Ray read its configuration and its token again, if it is imported already."""
    raylet: Any = sys.modules.get("ray._raylet")
    if raylet is not None:
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextlib.contextmanager
def hidden_cloud_secrets() -> Iterator[None]:
    """Keep AWS credentials out of the environment of Tune's trials: Ray logs it in plain text."""
    class_cache = importlib.import_module("ray.tune.execution.class_cache")
    propagated: set[str] = class_cache.ENV_VARS_TO_PROPAGATE
    secrets = {name for name in propagated if "AWS" in name}
    propagated -= secrets
    try:
        yield
    finally:
        propagated |= secrets


class RayThread:
    """The thread that starts Ray, or joins a cluster, and ends that.

    It lives as long as the connection: the kernel ends the processes of a Ray of our own with the
    thread that started them. Nothing of Ray has a limit of time if a part of it dies meanwhile, and
    no signal would reach a main thread that waits within Ray.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        """Begin; `check` is called while Ray starts, and what it raises ends the wait."""
        self._check = check
        self._calls = queue.SimpleQueue[tuple[Callable[[], object], Future[None]] | None]()
        logging.getLogger("ray._private.worker").addFilter(_is_no_warning_of_thread)
        self._is_starting = False
        self._thread = threading.Thread(target=self._work, daemon=True, name=_THREAD)
        self._thread.start()

    def start(self, **options: Any) -> None:
        """Call `ray.init`; raise its errors, or `TimeoutError` if it takes too long."""
        import ray  # noqa: PLC0415

        self._is_starting = True
        answer = self._call(lambda: ray.init(**options))
        until_s = time.monotonic() + _START_S
        while not answer.done():
            self._check()
            if time.monotonic() > until_s:
                raise TimeoutError(f"it has not answered within {_START_S:.0f} seconds")
            wait([answer], _LOOK_S)
            reclaim_sigterm()
        reclaim_sigterm()
        self._is_starting = False
        answer.result()

    def end(self, *, is_own_cluster: bool) -> None:
        """End the connection; a head that does not answer any more is not waited for."""
        import ray  # noqa: PLC0415

        limit_s = _END_S if is_own_cluster and not self._is_starting else _LEAVE_S
        wait([self._call(ray.shutdown)], limit_s)
        self._calls.put(None)
        self._thread.join(_LOOK_S)

    def _call(self, call: Callable[[], object]) -> Future[None]:
        answer = Future[None]()
        self._calls.put((call, answer))
        return answer

    def _work(self) -> None:
        while (called := self._calls.get()) is not None:
            call, answer = called
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised again, where it is waited for
                answer.set_exception(error)
            else:
                answer.set_result(None)


def _is_no_warning_of_thread(record: logging.LogRecord) -> bool:
    return "SIGTERM handler is not set" not in record.getMessage()


def has_waiting_threads() -> bool:
    """Return whether threads of this process wait for a lost head, which never ends."""
    return any(thread.name == _THREAD for thread in threading.enumerate())
