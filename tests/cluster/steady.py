"""A custom workload: a power iteration of configurable duration, on any device.

It uses no framework, so that simulated GPUs can run it. It shows where trials run and that none is
lost, never how fast a GPU is.
"""

from __future__ import annotations

import os
import time

import numpy as np

from workloads.context import Context


def train(trial: Context) -> dict[str, float]:
    """Train with `settings: {epochs: 4, rest_s: 0.1}`; `units` is the size of the matrix."""
    _expect_device(trial)
    units, epochs = int(trial.settings["units"]), int(trial.settings.get("epochs", 4))
    draw = np.random.default_rng(trial.seed)
    with trial.phase("load"):
        matrix = draw.normal(size=(units, units)) / np.sqrt(units) + np.eye(units)
        vector = draw.normal(size=units)
    kernel = trial.implementation.kernel
    trial.kernel(asked=kernel, ran=kernel, evidence="there is only one implementation")
    accuracy = 0.0
    for index in range(epochs):
        with trial.phase("train") as window:
            before = vector / np.linalg.norm(vector)
            for _ in range(20):
                vector = matrix @ (vector / np.linalg.norm(vector))
        accuracy = float(abs(before @ vector) / np.linalg.norm(vector))
        trial.epoch(index, window.seconds, loss=1.0 - accuracy, val_accuracy=accuracy)
        time.sleep(float(trial.settings.get("rest_s", 0.1)))
    step_ms = 1e3 * trial.seconds["train"] / (20 * epochs)
    return {"loss": 1.0 - accuracy, "val_accuracy": accuracy, "step_ms": step_ms}


def _expect_device(trial: Context) -> None:
    """Check that a GPU trial sees a GPU and a CPU trial sees none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    has_gpu = visible not in (None, "", "-1")
    if has_gpu != (trial.device == "gpu"):
        raise RuntimeError(f"a {trial.device} trial with CUDA_VISIBLE_DEVICES={visible!r}")
