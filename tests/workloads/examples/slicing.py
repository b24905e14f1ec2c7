"""Workloads that are timed in slices, well or badly. A step sleeps; nothing is trained.

`settings: {step_s: 0.002, slower: {none/slow: 1.2}}`. With `spread: 0.02` nothing sleeps, and the
seconds that are told are drawn around what they are meant to be. What goes wrong does so in the
slice `at`, of the implementation `of`.
"""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Callable

from workloads.context import Context
from workloads.failures import NotPossible


def steady(trial: Context) -> dict[str, float]:
    """Takes its slices; proves a kernel."""
    _slices(trial, lambda: None)
    trial.kernel(trial.implementation.kernel, trial.implementation.kernel, "as it reports itself")
    return {"samples_per_s": 1.0}


def refuses(trial: Context) -> dict[str, float]:
    """Cannot run these settings, and says so before it is ready."""
    if _is_meant(trial):
        raise NotPossible("this needs hardware that nobody has")
    return steady(trial)


def raises(trial: Context) -> dict[str, float]:
    """Raises in a slice."""

    def fail() -> None:
        raise RuntimeError("broke in a slice")

    _slices(trial, fail)
    return {}


def dies(trial: Context) -> dict[str, float]:
    """Is killed in a slice."""
    _slices(trial, lambda: os.kill(os.getpid(), signal.SIGKILL))
    return {}


def hangs(trial: Context) -> dict[str, float]:
    """Hangs in a slice."""
    _slices(trial, lambda: time.sleep(3600))
    return {}


def forgets(trial: Context) -> dict[str, float]:
    """Takes no slices at all, as a workload that was written for whole trainings."""
    return {"loss": 0.0}


def stops_early(trial: Context) -> dict[str, float]:
    """Leaves the loop by itself."""
    for steps in trial.slices(1):
        trial.slice(steps, 0.001)
        break
    return {}


def tells_nothing(trial: Context) -> dict[str, float]:
    """Goes round the loop, and does not tell of the slice."""
    for _ in trial.slices(1):
        pass
    return {}


def takes_anyway(trial: Context) -> dict[str, float]:
    """Takes slices whatever it was asked for."""
    for steps in trial.slices(1):
        trial.slice(steps, 0.001)
    return {}


def loses_time(trial: Context) -> dict[str, float]:
    """Tells of a slice that took no time."""
    for steps in trial.slices(1):
        trial.slice(steps, 0.0)
    return {}


def _is_meant(trial: Context) -> bool:
    return str(trial.implementation) == trial.settings.get("of", str(trial.implementation))


def _slices(trial: Context, break_down: Callable[[], None]) -> None:
    step_s = float(trial.settings.get("step_s", 0.002))
    step_s *= trial.settings.get("slower", {}).get(str(trial.implementation), 1.0)
    draw, spread = random.Random(str(trial.implementation)), trial.settings.get("spread")
    for number, steps in enumerate(trial.slices(max(1, round(trial.slice_s / step_s)))):
        if number == trial.settings.get("at", 2) and _is_meant(trial):
            break_down()
        with trial.phase("train") as window:
            time.sleep(0.0 if spread else steps * step_s)
        drawn_s = steps * step_s * math.exp(draw.gauss(0.0, spread or 0.0))
        trial.slice(steps, drawn_s if spread else window.seconds)
