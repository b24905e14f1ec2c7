"""From a backend to its framework, which is imported in a trainer process only."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
from typing import TYPE_CHECKING

from workloads.backends.registry import backends, find_backend
from workloads.context import Context

if TYPE_CHECKING:
    from workloads.backends.framework import Framework


@functools.cache
def load_framework(backend: str) -> Framework:
    """Import the framework of a backend, and return the same object each time."""
    light_half = find_backend(backend)
    module_name, _, class_name = light_half.framework.partition(":")
    framework: Framework = getattr(importlib.import_module(module_name), class_name)(light_half)
    # Each collection, several a trial, would walk all objects of the framework. No model is
    # built yet that should be released later.
    gc.collect()
    gc.freeze()
    return framework


def import_framework(trial: Context) -> Framework:
    """Return the framework of a trial; the first trial of a process imports it, in a phase.

    It may have to rest afterwards, while trainers next to it import theirs.
    """
    if "keras" in sys.modules:
        return load_framework(trial.implementation.backend)
    with trial.phase("import"):
        framework = load_framework(trial.implementation.backend)
    if trial.turns.rests_when_imported:
        trial.turns.rest("load")
    return framework


def load_framework_of_keras() -> Framework:
    """Return the framework of the backend that Keras uses in this process."""
    import keras  # noqa: PLC0415 - this process runs models

    name = keras.backend.backend()
    if name not in backends():
        raise ValueError(
            f"Keras' backend is {name}, not one of {', '.join(backends())}: set KERAS_BACKEND"
            " before Keras is imported"
        )
    return load_framework(name)
