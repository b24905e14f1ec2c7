"""Switches of a whole process that an arm decides, and that importing a user's module may change.

Imports no framework.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

_VARIABLES = (
    "KERAS_BACKEND",
    "CUDA_VISIBLE_DEVICES",
    "JAX_PLATFORMS",
    "KERAS_TORCH_DEVICE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "PJRT_NPROC",
    "XLA_FLAGS",
    "TF_XLA_FLAGS",
    "TF_DETERMINISTIC_OPS",
    "NVIDIA_TF32_OVERRIDE",
)
"""The environment variables that decide the backend, its devices, threads and precision."""


@dataclass(frozen=True, slots=True)
class ProcessSetting:
    """A switch of the process. `words` are the names by which code changes it."""

    name: str
    words: Sequence[str]
    read: Callable[[], Any]
    write: Callable[[Any], object]
    """Sets the value that `read` returned; raises an error where that is impossible."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A switch that was changed, and was set back unless `is_fixed`."""

    name: str
    words: Sequence[str]
    before: Any
    after: Any
    is_fixed: bool = False


def environment_settings() -> Iterator[ProcessSetting]:
    """Yield the environment variables that an arm decides."""
    for name in _VARIABLES:
        yield ProcessSetting(
            name, (name,), partial(os.environ.get, name), partial(_set_variable, name)
        )


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextmanager
def set_back(settings: Iterable[ProcessSetting]) -> Iterator[list[SettingChange]]:
    """Set back what the block changes; the result has the changes after the block."""
    changes = list[SettingChange]()
    watched = [(setting, setting.read()) for setting in settings]
    try:
        yield changes
    finally:
        for setting, before in watched:
            after = setting.read()
            if after == before:
                continue
            with suppress(Exception):  # frameworks raise several kinds
                setting.write(before)
            is_fixed = setting.read() != before
            changes.append(SettingChange(setting.name, setting.words, before, after, is_fixed))
