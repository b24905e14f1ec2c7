"""A workload whose arms behave as their kernel is named, such as `python/waits`."""

import os
import subprocess
import time
from pathlib import Path

from workloads.context import Context

PASSWORD = "PLANTED-in-the-code"
"""A secret that must be recorded nowhere: see `tests/faults/test_secrets.py`."""

HELPER = ("sleep", "3597.25")
"""The command of the processes that `python/helped` starts."""


def by_kernel(trial: Context) -> dict[str, float]:
    """Behave as the kernel is named; any other name (`python/a`) trains normally."""
    behaviours = {"waits": _waits, "flaky": _flaky, "helped": _helped}
    return behaviours.get(trial.implementation.kernel, _trains)(trial)


def _trains(trial: Context) -> dict[str, float]:
    time.sleep(float(trial.settings.get("sleep_s", 0.0)))
    kernel = trial.implementation.kernel
    trial.kernel(asked=kernel, ran=kernel, evidence="its own report")
    accuracy = int(trial.settings["units"]) / 100
    for index in range(int(trial.settings.get("epochs", 2))):
        if trial.should_prune():
            break
        time.sleep(float(trial.settings.get("epoch_s", 0.0)))
        trial.epoch(index, 0.001, validate_s=0.001, loss=1.0 - accuracy, val_accuracy=accuracy / 2)
    metrics = {"loss": 1.0 - accuracy, "val_accuracy": accuracy, "step_ms": 1.0 + len(kernel)}
    return {**metrics, "niceness": float(os.nice(0))}


def _waits(trial: Context) -> dict[str, float]:
    """Train once the gate exists; create the file `gate.waiting` until then."""
    gate = Path(str(trial.settings["gate"]))
    while not gate.exists():
        gate.with_name("gate.waiting").touch()
        time.sleep(0.05)
    return _trains(trial)


def _helped(trial: Context) -> dict[str, float]:
    """Start a child and a daemon, which run for an hour, and wait for the gate."""
    subprocess.Popen(HELPER)
    subprocess.run(["sh", "-c", '"$@" & ', "sh", *HELPER], start_new_session=True, check=True)
    return _waits(trial)


def _flaky(trial: Context) -> dict[str, float]:
    if not Path(str(trial.settings["gate"])).exists():
        print("did not find the gate")
        raise RuntimeError("the gate is shut")
    return _trains(trial)
