"""A workload that sleeps, and reports its CPUs and its scheduling priority."""

from __future__ import annotations

import os
import time

from rnnsweep import Context


def run(trial: Context) -> dict[str, float]:
    """Sleep for the setting `seconds`; report `first_cpu` and `cpus` of the trainer's affinity."""
    usable = sorted(os.sched_getaffinity(0))
    with trial.phase("train"):
        time.sleep(float(trial.settings["seconds"]))
    sees_gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") not in ("", "-1")
    return {
        "val_accuracy": 0.5,
        "step_ms": 1.0,
        "cpus": float(len(usable)),
        "first_cpu": float(usable[0]),
        "sees_gpus": float(sees_gpus),
        "niceness": float(os.nice(0)),
    }
