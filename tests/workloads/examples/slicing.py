"""Workloads that sleep in slices; a fault happens in the slice `at` of the implementation `of`."""
# With the setting `spread` nothing sleeps: the seconds are drawn around the intended ones.

import math
import random
import time
from collections.abc import Callable

from rnnsweep import Context
from workloads.failures import NotPossible


def steady(trial: Context) -> dict[str, float]:
    _slices(trial, lambda: None)
    trial.kernel(trial.implementation.kernel, trial.implementation.kernel, "as it reports itself")
    return {"samples_per_s": 1.0}


def refuses(trial: Context) -> dict[str, float]:
    if _has_fault(trial):
        raise NotPossible("this needs hardware that nobody has")
    return steady(trial)


def raises(trial: Context) -> dict[str, float]:
    def fail() -> None:
        raise RuntimeError("broke in a slice")

    _slices(trial, fail)
    return {}


def hangs(trial: Context) -> dict[str, float]:
    _slices(trial, lambda: time.sleep(3600))
    return {}


def forgets(trial: Context) -> dict[str, float]:
    """Run no slices, as a workload for full trainings."""
    return {"loss": 0.0}


def stops_early(trial: Context) -> dict[str, float]:
    """Leave the loop before it ends."""
    for steps in trial.slices(1):
        trial.slice(steps, 0.001)
        break
    return {}


def reports_no_slice(trial: Context) -> dict[str, float]:
    for _ in trial.slices(1):
        pass
    return {}


def _has_fault(trial: Context) -> bool:
    return str(trial.implementation) == trial.settings.get("of", str(trial.implementation))


def _slices(trial: Context, fail: Callable[[], None]) -> None:
    step_s = float(trial.settings.get("step_s", 0.002))
    step_s *= trial.settings.get("slower", {}).get(str(trial.implementation), 1.0)
    draw, spread = random.Random(str(trial.implementation)), trial.settings.get("spread")
    chosen = max(1, round(trial.slice_s / step_s))
    for number, steps in enumerate(trial.slices(chosen)):
        if number == trial.settings.get("at", 2) and _has_fault(trial):
            fail()
        with trial.phase("train"):
            time.sleep(0.0 if spread else steps * step_s)
        if spread:
            trial.slice(steps, steps * step_s * math.exp(draw.gauss(0.0, spread)))
