"""Ray inside this process: its settings during a connection, and the process as it was afterwards.

Ray reads some environment variables once and keeps them in the process: the authentication mode,
the token, its whole configuration. A caller (a notebook, a test) that uses Ray before or after a
sweep must not see the sweep's settings, so what Ray keeps is refreshed when they are restored.
"""

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

from orchestrator.core.stop_signal import restored_process

_SHUTDOWN_THREAD, _SHUTDOWN_S = "ray-shutdown", 10.0


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


def shut_down(*, is_own_cluster: bool) -> None:
    """End the connection; a head that does not answer any more is not waited for."""
    import ray  # noqa: PLC0415

    if is_own_cluster:
        ray.shutdown()
        return
    leaving = threading.Thread(target=ray.shutdown, daemon=True, name=_SHUTDOWN_THREAD)
    leaving.start()
    leaving.join(_SHUTDOWN_S)


def has_waiting_threads() -> bool:
    """Return whether threads of this process wait for a lost head, which never ends."""
    return any(thread.name == _SHUTDOWN_THREAD for thread in threading.enumerate())
