"""A custom workload that rests instead of training, on any device."""

import os
import time
from pathlib import Path

from workloads.context import Context


def train(trial: Context) -> dict[str, float]:
    """Rest for 0.1 s in each of `settings.epochs`; fail on another device than requested.

    On a GPU, wait for the file `settings.gate`, if any; the file `GATE.CARD` tells that it waits.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if (visible not in (None, "", "-1")) != (trial.device == "gpu"):
        raise RuntimeError(f"a {trial.device} trial with CUDA_VISIBLE_DEVICES={visible!r}")
    trial.environment(card=visible)
    if trial.device == "gpu" and (gate := trial.settings.get("gate")):
        Path(f"{gate}.{visible}").touch()
        while not Path(gate).exists():
            time.sleep(0.05)
    kernel, accuracy = trial.implementation.kernel, 0.0
    trial.kernel(asked=kernel, ran=kernel, evidence="there is only one implementation")
    for index in range(int(trial.settings["epochs"])):
        with trial.phase("train") as window:
            time.sleep(0.1)
        accuracy = 1.0 - 1.0 / (index + 2)
        trial.epoch(index, window.seconds, loss=1.0 - accuracy, val_accuracy=accuracy)
    return {"loss": 1.0 - accuracy, "val_accuracy": accuracy, "step_ms": 1.0}
