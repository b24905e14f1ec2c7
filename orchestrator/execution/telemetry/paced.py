"""Values that are read now and then, since each reading costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Paced(Generic[P, T]):
    """A value that is read at most every `every_s` seconds, and takes at most `share` of a core."""

    def __init__(self, read: Callable[P, T], every_s: float, share: float = 1.0) -> None:
        self._read, self._every_s, self._share = read, every_s, share
        self._next_s = 0.0
        self._value: T | None = None

    def value(self, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the value, read again if it is time."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            began_s = time.thread_time()
            self._value = self._read(*args, **kwargs)
            spent_s = time.thread_time() - began_s
            self._next_s = now_s + max(self._every_s, spent_s / self._share)
        return self._value
