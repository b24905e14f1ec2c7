"""Changes of the process that end with a block: environment variables and signal handlers.

Only the commands may change the process for good. Everything below them uses this block.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def restored_process() -> Iterator[None]:
    """Restore the environment and the signal handlers when the block ends.

    Ray, too, changes both. Handlers are set and restored in the main thread only.
    """
    environ = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for name in os.environ.keys() - environ.keys():
            del os.environ[name]
        os.environ.update(environ)
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
