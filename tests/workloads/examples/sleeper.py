"""A workload that sleeps instead of training: slow on one class of nodes, fast on another.

For benchmarks of scheduling: nodes differ in the CPUs that they may use, as in a sweep with real
classes, and a sleeping trial leaves the machine's CPUs to the measured code. The accuracy that it
reports is a smooth function of its config with one maximum and a little noise.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Mapping

from rnnsweep import Context

SPACE = ("depth", "width", "rate", "decay")
"""Parameters between 0 and 1; `width` also decides the duration of a trial."""

_BEST = (0.35, 0.8, 0.55, 0.15)
_NOISE = 0.005


def run(trial: Context) -> dict[str, float]:
    """Sleep by the settings `fast_s`, `slow_s`, `fast_cpus`; 10 `rounds` are a full trial."""
    cpus = len(os.sched_getaffinity(0))
    is_fast = cpus == int(trial.settings["fast_cpus"])
    full_s = float(trial.settings["fast_s" if is_fast else "slow_s"])
    rounds = int(trial.settings.get("rounds", 10))
    config = {name: float(trial.settings[name]) for name in SPACE if name in trial.settings}
    with trial.phase("train"):
        time.sleep(full_s * rounds / 10 * relative_duration(config))
    return {"val_accuracy": accuracy(config, trial.seed, rounds), "step_ms": 100 * full_s}


def relative_duration(config: Mapping[str, float]) -> float:
    """Return the duration of a config's trial, relative to the mean of all configs."""
    return 0.5 + config.get("width", 0.5)


def accuracy(config: Mapping[str, float], seed: int, rounds: int = 10) -> float:
    """Return the measured accuracy: fewer rounds learn less, and there is noise."""
    noise = random.Random(seed).gauss(0.0, _NOISE)
    return true_accuracy(config) * (1 - 0.5 ** (rounds / 2)) + noise


def true_accuracy(config: Mapping[str, float]) -> float:
    """Return the accuracy without noise, from 0 to 1, which is best at one place of the space."""
    places = zip(SPACE, _BEST, strict=True)
    distance = math.fsum((config.get(name, 0.5) - best) ** 2 for name, best in places)
    return math.exp(-2 * distance)
